#![allow(unsafe_code, missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
use tierscope_workload::trace::{TstReader,TstWriter,TstMetadata};
use tierscope_workload::{Stream, Pull};
fn cpu()->f64{ unsafe{ let mut t:libc::timespec=std::mem::zeroed(); libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID,&mut t); t.tv_sec as f64+t.tv_nsec as f64*1e-9}}
fn main(){
  for p in std::env::args().skip(1) {
  let mut r=TstReader::open(p.as_ref(), false).unwrap();
  let mut out=vec![]; let mut skipped=0;
  while skipped<30_000_000 { let mut o=vec![]; if r.pull(0,4064,&mut o).unwrap()==Pull::End {break} skipped+=o.len(); if skipped>100_000_000 {break} }
  if skipped<30_000_000 { r=TstReader::open(p.as_ref(), false).unwrap(); }
  let t=cpu();
  while out.len()<20_000_000 && r.pull(0,4064,&mut out).unwrap()==Pull::More {}
  let read=cpu()-t;
  let t=cpu();
  let mut w=TstWriter::create("/dev/shm/x.tst".as_ref(), &TstMetadata::default()).unwrap();
  for c in out.chunks(4064) { if let Err(e)=w.append(0,c) { println!("{e}"); } }
  let tot=w.finish("x").unwrap();
  let el=cpu()-t;
  let n=tot.accesses() as f64;
  println!("{p}: {} accesses read {:.2} ns write {:.2} ns {:.3} B", n, read/n*1e9, el/n*1e9, std::fs::metadata("/dev/shm/x.tst").unwrap().len() as f64/n);
  }
}
