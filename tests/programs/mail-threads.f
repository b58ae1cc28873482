# A server of mail with several threads, for a comparison of the model with the program: what each does is
# as in mail.f. All are of one process, so that a trace of calls tells them apart; the first that counts as many
# operations as are asked for, of all threads together, ends the run.
set $nfiles=500
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $iosize=1m
set $append=16k
set $nthreads=8
set mode quit firstdone

define fileset name=mailset,path=/tmp,size=$filesize,entries=$nfiles,dirwidth=1000000,prealloc=80

define process name=service,instances=1
{
  thread name=server,memsize=10m,instances=$nthreads
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
    flowop finishoncount name=finish1,value=10400
  }
}

run 60
