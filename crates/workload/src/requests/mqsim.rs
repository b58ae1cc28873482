//! `mqsim`: when a request arrives, the device, its first sector, how many sectors (of 512 bytes),
//! and 0 to write or 1 to read: the traces of MQSim, which are DiskSim's.
//!
//! The unit of times is said in MQSim's description of the workload, not in the trace: nanoseconds
//! unless another is said. A volume is a device.

use super::words::{sectors, split, whole};
use super::{
    ChoiceError, Choices, Extent, Format, FormatOption, Out, Parse, Read, RequestKind, Script,
    Times, TraceRequest, VOLUME, VOLUMES, Volume,
};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "mqsim",
    summary: "Block trace of MQSim: time, device, sector, sectors, 0 to write or 1 to read",
    grammar: "TIME DEVICE SECTOR SECTORS 0|1",
    example: "48513000 0 5688 8 1",
    times: Times::Ps(1_000),
    extent: Extent::Sectors(512),
    options: &[VOLUME, VOLUMES, UNIT],
    source: "CMU-SAFARI/MQSim@2b6904b:src/host/ASCII_Trace_Definition.h, and README.md",
    parse: Parse::Script(script),
    write: Some(write),
    ..Format::PLAIN
};

/// The option that says the unit of times.
const UNIT: FormatOption = FormatOption {
    name: "unit",
    default: "ns",
    meaning: "What times are counted in: ps, ns or us (Time_Unit of MQSim's workload).",
};

fn script(choices: &Choices) -> Result<Box<dyn Script>, ChoiceError> {
    let unit_ps = match choices.get(UNIT.name).map_or("ns", String::as_str) {
        "ps" => 1,
        "ns" => 1_000,
        "us" => 1_000_000,
        other => {
            return Err(ChoiceError {
                name: UNIT.name,
                value: other.to_owned(),
                reason: "it is no unit that MQSim knows".into(),
                mend: "write ps, ns or us".into(),
            });
        }
    };
    Ok(Box::new(MqSim { unit_ps, volume: Volume::of(choices)? }))
}

#[derive(Clone)]
struct MqSim {
    unit_ps: u64,
    volume: Volume,
}

impl Script for MqSim {
    fn read(&mut self, line: &str, out: &mut Out) -> Result<Read, String> {
        let [when, device, first, count, what] = split(line)?;
        let kind = match what {
            "0" => RequestKind::Write,
            "1" => RequestKind::Read,
            _ => return Err(format!("`{what}` is neither 0, to write, nor 1, to read")),
        };
        let (address, bytes) = sectors(first, count)?;
        let ticks = Some(whole(when, "a time, a whole number from 0")?);
        if let Some(address) = self.volume.place(device, address, bytes.into())? {
            out.push_back(TraceRequest { address, bytes, kind, ticks });
        }
        Ok(Read::Goes)
    }

    fn times(&self) -> Option<Times> {
        Some(Times::Ps(self.unit_ps))
    }

    fn volume(&mut self) -> Option<&mut Volume> {
        Some(&mut self.volume)
    }

    fn fork(&self) -> Box<dyn Script> {
        Box::new(self.clone())
    }
}

fn write(request: &TraceRequest, to: &mut Vec<u8>) {
    let (when, first, count) =
        (request.ticks.unwrap_or(0), request.address / 512, request.bytes / 512);
    let what = u8::from(!request.is_write());
    let _ = writeln!(to, "{when} 0 {first} {count} {what}");
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read_all, said};

    #[test]
    fn nought_is_a_write_and_sectors_are_of_512_bytes() {
        let read = read_all("mqsim", "1 0 8 16 0\n2 0 9 1 1\n", &[]);
        assert_eq!((read[0].is_write(), read[0].address, read[0].bytes), (true, 4096, 8192));
        assert_eq!((read[1].is_write(), read[1].address, read[1].bytes), (false, 4608, 512));
        assert!(said("mqsim", "1 0 8 16 2\n").contains("neither 0, to write"));
        assert!(said("mqsim", "1 0 8 0 1\n").contains("its size is 0"));
    }
}
