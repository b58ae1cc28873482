//! Traces of what a program's instructions did, as a workload of one thread for machines with a
//! processor: formats that tell instructions, or let them be counted.

use super::Format;
use super::format::{Choices, Program};
use super::input::OpenError;
use super::reader::{MOST_EMPTY_BYTES, TraceReader};
use crate::op::{Op, ThreadId};
use crate::stream::{Pull, Stream, StreamError};
use std::path::Path;

/// Instructions without an access after which an operation tells them.
const MOST_INSTRUCTIONS: u32 = 1 << 20;

/// A trace as a workload of one thread.
///
/// It maps nothing: what it touches is memory of which machines are not told before, as of a recorded
/// program's own image. Calls on the operating system are not in such traces.
pub struct ProgramTrace {
    /// Why there is none where it could not be forked.
    reader: Result<TraceReader, StreamError>,
    program: Box<dyn Program>,
    /// Operations that were read and have not been pulled, the next one last.
    pending: Vec<Op>,
    ended: bool,
}

impl ProgramTrace {
    /// Opens a trace of a format whose traces are of programs, and looks at its first access.
    ///
    /// # Errors
    /// Where the file cannot be read, holds no access, or its beginning is wrong; and where the format
    /// is of requests to devices alone.
    pub fn open(
        path: &Path,
        format: &'static Format,
        choices: &Choices,
    ) -> Result<Self, OpenError> {
        let Some(program) = format.program else {
            let name = format.name;
            return Err(OpenError::Wrong(format!("a trace of {name} is of no program")));
        };
        Ok(ProgramTrace {
            reader: Ok(TraceReader::open(path, format, choices)?),
            program: program(),
            pending: Vec::new(),
            ended: false,
        })
    }

    /// Reads what gives at least one operation, unless the trace ends.
    fn fill(&mut self) -> Result<(), StreamError> {
        let reader = self.reader.as_mut().map_err(|why| why.clone())?;
        let begun = reader.offset();
        while self.pending.is_empty() && !self.ended {
            if reader.read()? {
                let read = match reader.record() {
                    None => Ok(()),
                    Some(record) => self.program.read(record, &mut self.pending),
                };
                read.map_err(|why| reader.wrong(&why))?;
            } else {
                self.ended = true;
            }
            if reader.offset() - begun > MOST_EMPTY_BYTES {
                return Err(reader.wrong("too many bytes up to here are of no instruction"));
            }
            let instructions = self.program.instructions();
            if *instructions >= MOST_INSTRUCTIONS || self.ended && *instructions > 0 {
                self.pending.push(Op::compute(std::mem::take(instructions)));
            }
        }
        self.pending.reverse();
        Ok(())
    }
}

impl Stream for ProgramTrace {
    fn pull(
        &mut self,
        thread: ThreadId,
        limit: usize,
        out: &mut Vec<Op>,
    ) -> Result<Pull, StreamError> {
        if thread != 0 {
            return Ok(Pull::End);
        }
        let target = out.len() + limit.max(1);
        let before = out.len();
        while out.len() < target {
            if self.pending.is_empty() {
                self.fill()?;
            }
            let Some(op) = self.pending.pop() else { break };
            out.push(op);
        }
        Ok(if out.len() > before { Pull::More } else { Pull::End })
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(ProgramTrace {
            reader: self.reader.as_ref().map_err(Clone::clone).and_then(TraceReader::again),
            program: self.program.fork(),
            pending: self.pending.clone(),
            ended: self.ended,
        })
    }

    fn gives_mark(&self, _mark: u64) -> Option<bool> {
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::drmemtrace::tests::record;
    use super::super::find;
    use super::super::tests::Scratch;
    use super::*;
    use crate::conformance::stream_laws;
    use crate::op::FLAG_DEPENDENT;

    fn open(file: &Scratch, format: &str) -> Result<ProgramTrace, OpenError> {
        ProgramTrace::open(&file.0, find(format).unwrap(), &Choices::new())
    }

    fn all(mut stream: impl Stream) -> Vec<Op> {
        let mut out = Vec::new();
        while stream.pull(0, 3, &mut out).unwrap() == Pull::More {}
        out
    }

    const LACKEY: &str = "==7== Lackey\nI  04,3\nI  07,2\n L 1000,8\nI  09,4\n M 2000,4\n S 3000,16\n\
                          I  0d,1\nI  0e,1\n";

    /// A record of ChampSim: registers written and read, addresses written and read.
    fn instruction(written: u8, read: u8, store: u64, load: u64) -> Vec<u8> {
        let mut record = vec![0; 64];
        (record[10], record[12]) = (written, read);
        record[16..24].copy_from_slice(&store.to_le_bytes());
        record[32..40].copy_from_slice(&load.to_le_bytes());
        record
    }

    #[test]
    fn the_streams_laws_hold() {
        let lines = Scratch::new(LACKEY.repeat(40).as_bytes());
        stream_laws(|| Box::new(open(&lines, "lackey").unwrap()));
        let records = [instruction(1, 2, 0, 0x1000), instruction(0, 1, 0x40, 0)].concat();
        let records = Scratch::new(&records.repeat(60));
        stream_laws(|| Box::new(open(&records, "champsim").unwrap()));
        let entries = [record(22, 0, 7), record(10, 4, 64), record(0, 8, 4096)].concat();
        let entries = Scratch::new(&entries.repeat(50));
        stream_laws(|| Box::new(open(&entries, "drmemtrace").unwrap()));
    }

    #[test]
    fn instructions_of_lackey_are_counted_up_to_their_access() {
        let file = Scratch::new(LACKEY.as_bytes());
        let expected = [
            Op::load(0x1000, 8, 2),
            Op::load(0x2000, 4, 1),
            Op::store(0x2000, 4, 0),
            Op::store(0x3000, 16, 0),
            Op::compute(2),
        ];
        assert_eq!(all(open(&file, "lackey").unwrap()), expected);
        let without = Scratch::new(b" L 1000,8\n M 2000,4\n");
        let expected = [Op::load(0x1000, 8, 1), Op::load(0x2000, 4, 1), Op::store(0x2000, 4, 0)];
        assert_eq!(all(open(&without, "lackey").unwrap()), expected);
    }

    #[test]
    fn a_load_of_champsim_depends_on_the_load_before_by_its_registers() {
        let records = [
            instruction(1, 2, 0, 0x1000),
            // Of register 1 becomes 3, and of that the address of the next load.
            instruction(3, 1, 0, 0),
            instruction(4, 3, 0, 0x2000),
            // Register 3 is of a load before the last.
            instruction(5, 3, 0, 0x3000),
            instruction(0, 5, 0x4000, 0),
        ];
        let file = Scratch::new(&records.concat());
        let found = all(open(&file, "champsim").unwrap());
        let expected = [
            Op::load(0x1000, 8, 1),
            Op::load(0x2000, 8, 2).with_flags(FLAG_DEPENDENT),
            Op::load(0x3000, 8, 1),
            Op::store(0x4000, 8, 1).with_flags(FLAG_DEPENDENT),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_trace_of_a_program_is_refused() {
        let file = Scratch::new(b"0x40 READ 1\n");
        let told = open(&file, "dramsim3").err().unwrap().to_string();
        assert_eq!(told, "a trace of dramsim3 is of no program");
        let threads = [record(22, 0, 7), record(0, 8, 64), record(22, 0, 8)].concat();
        let file = Scratch::new(&threads);
        let mut stream = open(&file, "drmemtrace").unwrap();
        let mut out = Vec::new();
        let told = std::iter::repeat_with(|| stream.pull(0, 1, &mut out))
            .find_map(Result::err)
            .unwrap()
            .to_string();
        assert!(told.contains("record 3") && told.contains("of a second thread"), "{told}");
    }
}
