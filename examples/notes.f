# A service of notes: twelve readers, four writers, and one that rolls its journal.
# tierscope run -s hybrid/quick,storage/quick -w filebench:examples/notes.f
set $nnotes=200
set $size=cvar(type=cvar-gamma,parameters=mean:12288;gamma:1.5)
set $readers=12
set $writers=4

define fileset name=notes,path=/tmp,size=$size,entries=$nnotes,prealloc=90
define file name=journal,path=/tmp,size=4m,prealloc

define process name=service
{
  thread name=reader,memsize=2m,instances=$readers
  {
    flowop openfile name=open,filesetname=notes,fd=1
    flowop readwholefile name=read,fd=1,iosize=64k
    flowop closefile name=close,fd=1
  }
  thread name=writer,memsize=2m,instances=$writers
  {
    flowop openfile name=open,filesetname=notes,fd=1
    flowop appendfilerand name=change,fd=1,iosize=8k
    flowop fsync name=keep,fd=1
    flowop closefile name=close,fd=1
    flowop deletefile name=forget,filesetname=notes
    flowop createfile name=new,filesetname=notes,fd=1
    flowop writewholefile name=fill,fd=1,srcfd=1,iosize=64k
    flowop closefile name=done,fd=1
  }
  thread name=journal,memsize=1m
  {
    flowop write name=log,filename=journal,iosize=16k,random,dsync
  }
}
