#![allow(unsafe_code, missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
use tierscope_workload::trace::TstReader;
use tierscope_workload::{Stream, Pull, Call, OpKind};
fn main(){
  let p=std::env::args().nth(1).unwrap(); let t:u32=std::env::args().nth(2).unwrap().parse().unwrap();
  let skip:usize=std::env::args().nth(3).unwrap().parse().unwrap(); let n:usize=std::env::args().nth(4).unwrap().parse().unwrap();
  let mut r=TstReader::open(p.as_ref(), false).unwrap();
  println!("{:?} {:?} {:?}", r.totals(), r.threads(), r.files());
  let mut out=vec![]; let mut seen=0;
  while r.pull(t,1000,&mut out).unwrap()==Pull::More {
    let mut i=0; while i<out.len(){ let op=out[i];
      let show = seen>=skip && seen<skip+n; seen+=1; i+=1;
      if op.kind()==Some(OpKind::Call){ let a=op.size() as usize; if show {println!("{:?} i{}", Call::decode(op,&out[i..i+a]), op.instructions());} i+=a; }
      else if show {println!("{:?} f{} s{} i{} {:x}", op.kind().unwrap(), op.flags(), op.size(), op.instructions(), op.word);} }
    out.clear(); if seen>skip+n {break}
  }
}
