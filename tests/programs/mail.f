# A server of mail with one thread, for a comparison of the model with the program: each round deletes a
# file, makes one, appends to another and reads a third, and ends after 186 rounds: the program
# counts 14 operations in each, finishoncount itself among them.
set $nfiles=500
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $iosize=1m
set $append=16k
set mode quit firstdone

define fileset name=mailset,path=/tmp,size=$filesize,entries=$nfiles,dirwidth=1000000,prealloc=80

define process name=service,instances=1
{
  thread name=server1,memsize=10m,instances=1
  {
    flowop deletefile name=delete1,filesetname=mailset
    flowop createfile name=create1,filesetname=mailset,fd=1
    flowop appendfilerand name=append1,iosize=$append,fd=1
    flowop fsync name=keep1,fd=1
    flowop closefile name=close1,fd=1
    flowop openfile name=open2,filesetname=mailset,fd=1
    flowop readwholefile name=read2,fd=1,iosize=$iosize
    flowop appendfilerand name=append2,iosize=$append,fd=1
    flowop fsync name=keep2,fd=1
    flowop closefile name=close2,fd=1
    flowop openfile name=open3,filesetname=mailset,fd=1
    flowop readwholefile name=read3,fd=1,iosize=$iosize
    flowop closefile name=close3,fd=1
    flowop finishoncount name=finish1,value=2600
  }
}

run 60
