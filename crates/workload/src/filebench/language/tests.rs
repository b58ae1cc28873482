use super::*;
use crate::conformance::calls_of_thread;
use crate::filebench::Options;
use crate::stream::Pull;
use crate::{Call, Op};
use std::sync::Arc;

/// A program of our own that has most of what the language has.
const TEXT: &str = r#"
# Two sets, three threads.
set $files=20
set $size=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $readers = 2
set $unit=4k
set mode quit alldone

define fileset name=data,path=/tmp,size=$size,entries=$files,
    dirwidth=20,prealloc=100,readonly
define file name=big,path=/tmp,size=1m,prealloc,reuse

define process name=first,instances=1
{
  thread name=reader,memsize=1m,instances=$readers
  {
    flowop openfile name=open,filesetname=data,fd=1  # the next
    flowop readwholefile name=whole,fd=1,iosize=1m
    flowop closefile name=close,fd=1
    flowop read name=some,filename=big,iosize=$unit,random,iters=3
    flowop hog name=think,value=100
  }
  thread name=writer,memsize=1m
  {
    flowop write name=put,filename=big,iosize=$unit,dsync
    flowop delay name=rest,value=1
  }
}
echo "loaded"
run 60
"#;

fn model(text: &str) -> Model {
    read(text, &[]).unwrap()
}

fn calls(model: &Model, thread: u32, loops: u64) -> Vec<Call> {
    let options = Options { seed: 3, loops, instructions: 10, touched: false };
    let mut stream =
        crate::filebench::stream(Arc::new(model.clone()), options, "file").expect("it can run");
    calls_of_thread(stream.as_mut(), thread)
}

#[test]
fn a_text_says_sets_and_threads() {
    let model = model(TEXT);
    assert_eq!((model.filesets.len(), model.threads.len()), (2, 3));
    assert_eq!((model.filesets[0].entries, model.filesets[0].preallocated_percent), (20, 100.0));
    assert_eq!(model.filesets[1].size.as_constant(), Some(1048576.0));
    let reader = &model.threads[0];
    assert_eq!(reader.memory_bytes, 1 << 20);
    assert_eq!(reader.flowops.len(), 5);
    let some = &reader.flowops[3];
    assert_eq!((some.kind, some.fileset, some.random), (Kind::Read, Some(1), true));
    assert_eq!(some.io_bytes.as_ref().unwrap().as_constant(), Some(4096.0));
    assert_eq!(model.run_s, Some(60.0));
    assert_eq!(model.mode, Mode::AllDone);
    let settings: Vec<&str> = model.settings.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(settings, ["files", "readers", "size", "unit"]);
}

#[test]
fn threads_do_what_the_text_says() {
    let all = calls(&model(TEXT), 2, 2);
    let writer: Vec<&Call> = all.iter().filter(|call| !matches!(call, Call::Open { .. })).collect();
    assert!(matches!(writer[0], Call::Write { offset: 0, length: 4096, .. }), "{writer:?}");
    assert!(matches!(writer[1], Call::Sync { .. }));
    assert!(matches!(writer[2], Call::Sleep { duration_ps: 1_000_000_000_000 }));
    assert!(matches!(writer[3], Call::Write { offset: 4096, length: 4096, .. }));
    let reader = calls(&model(TEXT), 1, 1);
    let random = reader.iter().filter(|call| matches!(call, Call::Read { length: 4096, .. }));
    assert_eq!(random.count(), 3);
}

#[test]
fn what_a_user_sets_goes_before_the_text() {
    let given = [("files".to_owned(), Value::from(7)), ("unit".to_owned(), Value::from("8k"))];
    let model = read(TEXT, &given).unwrap();
    assert_eq!(model.filesets[0].entries, 7);
    assert_eq!(model.threads[0].flowops[3].io_bytes.as_ref().unwrap().as_constant(), Some(8192.0));
    let told = read(TEXT, &[("filse".to_owned(), 1.into())]).unwrap_err().to_string();
    assert!(told.contains("$filse") && told.contains("did you mean files?"), "{told}");
}

/// A thread without a file ends the run, in silence where that is its end; or itself.
#[test]
fn modes_say_what_a_thread_without_a_file_ends() {
    let run = |mode: &str| {
        let text = format!(
            "set mode quit {mode}\n\
            define fileset name=s,entries=8,size=4k,prealloc=0\n\
            define file name=f,size=1m,prealloc\n\
            define process name=p {{\n thread name=a {{\n flowop createfile name=new,filesetname=s,fd=1\n\
            flowop closefile name=done,fd=1\n }}\n\
            thread name=b {{\n flowop read name=r,filename=f,iosize=64k\n }} }}"
        );
        let options = Options { seed: 3, loops: 30, instructions: 10, touched: false };
        let mut stream =
            crate::filebench::stream(Arc::new(model(&text)), options, "file").expect("it can run");
        let mut counts = [0, 1].map(|thread| {
            let mut ops: Vec<Op> = Vec::new();
            while stream.pull(thread, 64, &mut ops).unwrap() == Pull::More {}
            let calls = ops.iter().filter(|op| op.kind_code() == crate::OpKind::Call as u8);
            calls.count()
        });
        counts[0] -= 3; // what maps memory, and starts the other
        (counts, stream.ended_early())
    };
    let (all, told) = run("alldone");
    assert_eq!(
        (all, told),
        ([16, 31], None),
        "eight files opened and closed, and one open, 30 reads"
    );
    let (first, told) = run("firstdone");
    assert!(first[1] < 31 && told.is_none(), "{first:?} {told:?}");
    let (timeout, told) = run("timeout");
    assert_eq!(timeout, first);
    let told = told.expect("it tells");
    assert!(told.contains("new of thread 0 found none of the 8 files of s to create"), "{told}");
    assert!(told.ends_with("; give s more entries, or let fewer threads take them"), "{told}");
}

/// Forcing what is not open is a mistake of the description, which ends the run.
#[test]
fn an_operation_that_cannot_be_ends_the_run_and_is_told() {
    let text = "set mode quit alldone\n\
        define file name=f,size=1m,prealloc\n\
        define process name=p {\n thread name=t {\n flowop fsync name=force,filename=f,fd=1\n } }";
    let options = Options { seed: 3, loops: 2, instructions: 10, touched: false };
    let mut stream =
        crate::filebench::stream(Arc::new(model(text)), options, "file").expect("it can run");
    let mut ops = Vec::new();
    while stream.pull(0, 64, &mut ops).unwrap() == Pull::More {}
    let told = stream.ended_early().expect("it tells");
    assert!(
        told.ends_with(
            "force of thread 0 failed: it forces a file that is not open; open one before"
        )
    );
}

#[test]
fn limits_wait_for_events() {
    let text = "eventgen rate=1000\n\
        define file name=f,size=1m,prealloc\n\
        define process name=p {\n thread name=t {\n\
        flowop read name=r,filename=f,iosize=64k\n flowop eventlimit name=l\n } }";
    let model = model(text);
    let waits: Vec<u64> = calls(&model, 0, 3)
        .iter()
        .filter_map(|call| match call {
            Call::Wait { thread: 1, sequence } => Some(*sequence),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [1, 2, 3]);
    let events = calls(&model, 1, 3);
    let each = [Call::Sleep { duration_ps: 1_000_000_000 }, Call::Signal { sequence: 1 }];
    assert_eq!(events[..2], each);
    assert_eq!(events.len(), 6, "{events:?}");
}

#[test]
fn a_count_ends_the_run() {
    let text = "define file name=f,size=1m,prealloc\n\
        define process name=p {\n thread name=t {\n\
        flowop read name=r,filename=f,iosize=64k\n\
        flowop finishoncount name=end,value=5,target=r\n } }";
    let reads = calls(&model(text), 0, 0);
    assert_eq!(reads.iter().filter(|call| matches!(call, Call::Read { .. })).count(), 5);
}

/// Filebench itself ends `mail.f` after 186 rounds: 13 operations of files and the end's own count.
#[test]
fn an_end_counts_itself_as_the_program_does() {
    let text = include_str!("../../../../../tests/programs/mail.f");
    let calls = calls(&model(text), 0, 0);
    let deleted = calls.iter().filter(|call| matches!(call, Call::Unlink { .. })).count();
    assert_eq!(deleted, 186);
}

#[test]
fn mistakes_are_told_with_their_line() {
    let process = |flowop: &str| {
        format!(
            "define file name=f,size=1m,prealloc\ndefine process name=p {{\n thread name=t {{\n{flowop}\n}} }}"
        )
    };
    let read_of = |rest: &str| process(&format!("flowop read name=r,{rest}"));
    for (text, told) in [
        ("".to_owned(), "line 1: no process is defined; add define process"),
        (
            process("flowop read name=r,filename=f,iosize=1k").replace("name=t", "name=t,instances=0"),
            "line 5: all processes or their threads have 0 instances; write instances=1",
        ),
        ("\nset nfiles=3".into(), "line 2: `set nfiles` sets nothing; write set $NAME=VALUE"),
        ("frobnicate now".into(), "line 1: `frobnicate now` is not simulated; what is read"),
        (process("flowop raed name=r"), "line 4: flowop raed is not simulated; did you mean read?"),
        (process("flowop aiowrite name=r"), "line 4: flowop aiowrite is not simulated; "),
        (read_of("filename=g,iosize=1k"), "line 4: there is no set of files g; did you mean f?"),
        (read_of("filename=f"), "line 4: nothing is moved at once; add iosize=SIZE"),
        (read_of("iosize=1k"), "line 4: r has no set of files; add filesetname=NAME"),
        (read_of("filename=f,iosize=$io"), "line 4: $io is not set; write set $io=… before it"),
        (read_of("filename=f,iosize=1k,directio"), "line 4: directio of Filebench is not simulated"),
        (read_of("filename=f,iosize=lots"), "line 4: iosize = lots is no number; write a number"),
        (
            read_of("filename=f,iosize=1k,fd=900"),
            "line 4: fd = 900 is no descriptor; write a number",
        ),
        (
            read_of("filename=f,oisize=1k"),
            "line 4: flowop read has no attribute oisize; did you mean iosize?",
        ),
        (read_of("filename=f,iosize=1k,workingset=1000t"), "line 4: the working set is above 1t; write a smaller"),
        (read_of("filename=f,iosize=1k,iters=0"), "line 4: it is done less than once; write iters=1"),
        (process("flowop hog name=h,value=1e18"), "line 4: value may be above 1000000000000; write a smaller"),
        (process("flowop delay name=h,value=1e9"), "line 4: value may be above 1000000; write a smaller"),
        (process("flowop opslimit name=h,target=g"), "line 4: there is nothing in this thread to count by the name g"),
        ("eventgen rate=1e18".into(), "line 1: there are 1000000000000000000 events a second; write a rate"),
        ("define fileset name=a,entries=0,size=1".into(), "line 1: a has 0 files; write entries"),
        ("define fileset name=a,entries=1e99".into(), "line 1: entries = 1e99 is no number"),
        (
            "set $x=cvar(type=cvar-gama)\ndefine file name=f,size=$x".into(),
            "line 2: there is no distribution cvar-gama",
        ),
        (
            "set $x=cvar(type=cvar-weibull,parameters=scale:-1;shape:1)\ndefine file name=f,size=$x"
                .into(),
            "line 2: cvar-weibull has impossible parameters",
        ),
        ("define process name=p {\n thread name=t {\n".into(), "line 3: the text ends too early; "),
        ("set $a=1\n}".into(), "line 2: cannot read `}`; a statement is words"),
        (format!("define process name=p{}", "{ x ".repeat(5000)), "line 1: cannot read "),
    ] {
        let error = read(&text, &[]).unwrap_err().to_string();
        assert!(error.starts_with(told), "{text}\n{error}\n{told}");
    }
}

/// What is wrong with a model only when its files are known.
#[test]
fn what_would_never_end_is_refused() {
    let options = Options { seed: 3, loops: 0, instructions: 10, touched: false };
    let text = |size: &str, flowop: &str| {
        format!(
            "define file name=f,size={size},prealloc\ndefine process name=p {{\n thread name=t,memsize=1m {{\n{flowop}\n}} }}"
        )
    };
    let make = |text: &str| crate::filebench::stream(Arc::new(model(text)), options, "file");
    let whole = "flowop readwholefile name=r,filename=f,iosize=1k";
    let told = make(&text("2t", whole)).err().expect("it is refused").to_string();
    assert!(told.contains("r takes 2147483648 calls"), "{told}");
    let own = "flowop writewholefile name=w,filename=f,iosize=1,workingset=1t";
    let told = make(&text("1m", own)).err().expect("it is refused").to_string();
    assert!(told.contains("w takes 1099511627776 calls"), "{told}");
    let told = make(&text("3000000t", whole)).err().expect("it is refused").to_string();
    assert!(told.contains("above 1 EiB"), "{told}");
    // A file that is open is not deleted: nothing is done, over and over.
    let idle = "flowop openfile name=o,filename=f,fd=1,iters=1\nflowop finishoncount name=e,value=9,target=x";
    assert!(read(&text("1m", idle), &[]).is_err());
    let idle = "flowop hog name=h,value=0";
    let mut stream = make(&text("1m", idle)).expect("it can begin");
    let mut ops = Vec::new();
    assert!(stream.pull(0, 10, &mut ops).is_ok(), "what is counted is written");
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(set|define|process|flowop|read|[ ,={}\"$#\n]|[a-z0-9]{1,3}){0,60}") {
        let _ = read(&text, &[]);
    }
}
