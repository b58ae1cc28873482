//! Laws of all formats, on their readers, their writers, and what hostile files do to them.

use super::*;
use crate::op::{Call, Op, ThreadId};
use crate::stream::{Pull, Stream, StreamError};
use proptest::prelude::*;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tierscope_kernel::Clock;

/// A file that goes with the test.
pub(super) struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(bytes: &[u8]) -> Scratch {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tierscope-requests-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Scratch(path)
    }

    pub fn open(&self, format: &str) -> Result<TraceReader, OpenError> {
        self.open_with(format, &[])
    }

    pub fn open_with(&self, format: &str, said: &[(&str, &str)]) -> Result<TraceReader, OpenError> {
        let choices = said.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        TraceReader::open(&self.0, find(format).unwrap(), &choices)
    }

    /// What opening or reading it to the end says, without its path.
    pub fn said(&self, format: &str) -> String {
        let error = match self.open(format) {
            Ok(reader) => all(reader).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        error.replace(&self.0.display().to_string(), "FILE")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn all(mut source: impl RequestSource) -> Result<Vec<TraceRequest>, StreamError> {
    std::iter::from_fn(|| source.next().transpose()).collect()
}

/// The requests of a text.
pub(super) fn read_all(format: &str, text: &str, said: &[(&str, &str)]) -> Vec<TraceRequest> {
    all(Scratch::new(text.as_bytes()).open_with(format, said).unwrap()).unwrap()
}

/// What is said of a text that is wrong.
pub(super) fn said(format: &str, text: &str) -> String {
    Scratch::new(text.as_bytes()).said(format)
}

/// A text that has a line as its first request.
fn with_opening(format: &Format, line: &str) -> String {
    format!("{}{line}\n", String::from_utf8_lossy(format.opening))
}

#[test]
fn every_format_reads_its_own_example_and_no_other_nonsense() {
    for format in FORMATS {
        assert_eq!(find(format.name).map(|found| found.name), Some(format.name));
        if format.example.is_empty() {
            continue;
        }
        let read = read_all(format.name, &with_opening(format, format.example), &[]);
        assert_eq!(read.len(), 1, "{}", format.name);
        assert_eq!(read[0].ticks.is_some(), format.times != Times::Absent, "{}", format.name);
        assert_eq!(read[0].bytes > 0, format.extent != Extent::Line, "{}", format.name);
        if !format.heading.is_empty() {
            let text = format!("{}\n{}\n", format.heading, format.example);
            assert_eq!(read_all(format.name, &text, &[]), read, "{}", format.name);
        }
        let spaced = with_opening(format, &format.example.replace(' ', " \t "));
        if format.name != "lackey" {
            assert_eq!(read_all(format.name, &spaced, &[]), read, "{}", format.name);
        }
        for wrong in ["x", "0x", "READ", "0x40", "0x40 READ WRITE 7 8", "LD", "-1 R", "\u{7f} R"] {
            let why = said(format.name, &with_opening(format, wrong));
            let line = format.opening.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!(why.starts_with(&format!("FILE, line {line}, ")), "{}: {why}", format.name);
            assert!(why.contains(format.grammar) && !why.ends_with('.'), "{}: {why}", format.name);
        }
    }
}

fn trace(requests: &[(u64, bool, u64)]) -> (Vec<u8>, Vec<TraceRequest>) {
    let mut text = Vec::new();
    let mut expected = Vec::new();
    let mut cycle = 0;
    for (address, write, after) in requests {
        cycle += after;
        let what = if *write { "WRITE" } else { "READ" };
        writeln!(text, "{address:#x} {what} {cycle}").unwrap();
        expected.push(TraceRequest::line(*address, *write, Some(cycle)));
    }
    (text, expected)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut to = liblzma::write::XzEncoder::new(Vec::new(), 1);
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// A compressor.
type Packer = fn(&[u8]) -> Vec<u8>;
const PACKERS: [(&str, Packer); 4] =
    [("plain", <[u8]>::to_vec), ("gzip", gzip), ("xz", xz), ("zstd", zstd_of)];

/// Requests of every kind and size.
fn requests() -> impl Strategy<Value = Vec<TraceRequest>> {
    let kind = prop_oneof![
        4 => Just(RequestKind::Read),
        4 => Just(RequestKind::Write),
        1 => Just(RequestKind::ForcedWrite),
        1 => Just(RequestKind::Flush),
        1 => Just(RequestKind::Trim),
    ];
    let one = (0u64..1 << 44, 1u32..1 << 12, kind, 0u64..100);
    proptest::collection::vec(one, 1..16).prop_map(|all| {
        let mut ticks = 0;
        let each = all.into_iter().map(|(address, bytes, kind, after)| {
            ticks += after;
            let ticks = Some(ticks);
            let flush = kind == RequestKind::Flush;
            let (address, bytes) = if flush { (0, 0) } else { (address, bytes) };
            TraceRequest { address, bytes, kind, ticks }
        });
        each.collect()
    })
}

/// Requests as a list that is read once.
struct Listed {
    all: std::vec::IntoIter<TraceRequest>,
    times: Times,
}

impl RequestSource for Listed {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        Ok(self.all.next())
    }

    fn times(&self) -> Times {
        self.times
    }

    fn place(&self) -> String {
        "a request".into()
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        Ok(Box::new(Listed { all: self.all.clone(), times: self.times }))
    }
}

/// Writes requests in a format whose ticks theirs are.
fn written(format: &Format, requests: &[TraceRequest]) -> (Vec<u8>, Converted) {
    let all = Vec::from(requests).into_iter();
    let mut source = Listed { all, times: format.times };
    let mut bytes = Vec::new();
    let converted = convert(&mut source, format, &How::default(), &mut bytes, |_| true).unwrap();
    (bytes, converted)
}

/// What of a request a format can tell.
fn kept(format: &Format, request: &TraceRequest) -> Vec<TraceRequest> {
    let mut one = *request;
    match one.kind {
        RequestKind::Flush if !format.marks.flush => return Vec::new(),
        RequestKind::Trim if !format.marks.trim => return Vec::new(),
        RequestKind::Write | RequestKind::ForcedWrite if format.only_reads => {
            one.kind = RequestKind::Read;
        }
        RequestKind::ForcedWrite if !format.marks.forced => one.kind = RequestKind::Write,
        _ => {}
    }
    if format.times == Times::Absent {
        one.ticks = None;
    }
    if one.kind == RequestKind::Flush {
        return vec![one];
    }
    // Places are of whole bursts.
    let burst_bytes = if format.name == "ramulator2-vector" { 64 } else { 1 };
    match format.extent {
        Extent::Bytes => vec![one],
        Extent::Sectors(bytes) => {
            let end = one.end().next_multiple_of(bytes.into());
            one.address -= one.address % u64::from(bytes);
            vec![TraceRequest { bytes: (end - one.address) as u32, ..one }]
        }
        Extent::Line => (one.address / 64..=(one.end() - 1) / 64)
            .map(|line| {
                let address = (line * 64).max(one.address) / burst_bytes * burst_bytes;
                TraceRequest { address, bytes: 0, ..one }
            })
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_is_read_however_it_is_packed_and_forked_anywhere(
        requests in proptest::collection::vec((any::<u64>(), any::<bool>(), 0u64..1000), 1..60),
        at in 0usize..60,
    ) {
        let (text, expected) = trace(&requests);
        for (_, pack) in PACKERS {
            let file = Scratch::new(&pack(&text));
            let mut reader = file.open("dramsim3").unwrap();
            let at = at.min(expected.len());
            for one in &expected[..at] {
                prop_assert_eq!(reader.next().unwrap(), Some(*one));
            }
            let mut fork = reader.fork().unwrap();
            for one in &expected[at..] {
                prop_assert_eq!(fork.next().unwrap(), Some(*one));
            }
            prop_assert_eq!(fork.next().unwrap(), None);
            prop_assert_eq!(all(reader).unwrap(), &expected[at..]);
        }
    }

    #[test]
    fn what_a_format_can_tell_comes_back(requests in requests()) {
        for format in FORMATS.iter().filter(|format| format.is_written()) {
            let mut expected: Vec<_> = requests.iter().flat_map(|one| kept(format, one)).collect();
            if expected.is_empty() {
                continue;
            }
            // A trace that begins later than its epoch is read from its first request on.
            if format.epoch {
                let first = expected[0].ticks.unwrap_or(0);
                expected.iter_mut().for_each(|one| one.ticks = one.ticks.map(|t| t - first));
            }
            let (bytes, converted) = written(format, &requests);
            let nowhere = expected.extract_if(.., |one| format.nought_is_none && one.address == 0);
            prop_assert_eq!(converted.nowhere, nowhere.count() as u64);
            if expected.is_empty() {
                continue;
            }
            prop_assert_eq!(converted.written, expected.len() as u64);
            let left_out =
                converted.flushes_left_out + converted.trims_left_out + converted.nowhere;
            prop_assert!(converted.written + left_out >= requests.len() as u64);
            let file = Scratch::new(&bytes);
            let read = all(file.open(format.name).unwrap()).unwrap();
            prop_assert_eq!(read, expected, "{}", format.name);
        }
    }

    #[test]
    fn no_bytes_at_all_are_more_than_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        packed in 0usize..4,
    ) {
        let file = Scratch::new(&PACKERS[packed].1(&bytes));
        for format in FORMATS {
            if let Ok(reader) = file.open(format.name) {
                let _ = all(reader);
            }
        }
    }

    #[test]
    fn a_trace_with_a_fault_in_it_is_never_more_than_an_error(
        requests in requests(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        packed in 0usize..4,
    ) {
        for format in FORMATS.iter().filter(|format| format.is_written()) {
            let (bytes, _) = written(format, &requests);
            let mut bytes = PACKERS[packed].1(&bytes);
            if bytes.is_empty() {
                continue;
            }
            let at = at.index(bytes.len());
            bytes[at] = byte;
            for bytes in [&bytes[..], &bytes[..at]] {
                let file = Scratch::new(bytes);
                if let Ok(reader) = file.open(format.name) {
                    let _ = all(reader);
                }
            }
        }
    }
}

#[test]
fn blank_lines_remarks_and_carriage_returns_are_no_requests() {
    let read = read_all("ramulator", "# made by hand\r\n\r\n  0x40 R  \r\n\n0x80 W", &[]);
    assert_eq!(read.iter().map(|one| one.address).collect::<Vec<_>>(), [64, 128]);
}

#[test]
fn what_is_wrong_is_told_with_its_line_its_text_and_the_mend() {
    let line = "a line of dramsim3 is 0xADDRESS READ|WRITE CYCLE, such as 0x1f40 READ 120";
    for (text, expected) in [
        ("0x40 R 1", format!("FILE, line 1, `0x40 R 1`: `R` is neither READ nor WRITE; {line}")),
        ("\n0x40 READ", format!("FILE, line 2, `0x40 READ`: it has 2 words, not 3; {line}")),
        (
            "0x40 READ 9\n0x80 READ 8\n",
            "FILE, line 2, `0x80 READ 8`: its cycle lies before 9, that of the request before; \
             sort the trace by cycle"
                .into(),
        ),
        (
            "# nothing\n",
            "FILE holds no request; a line of dramsim3 is 0xADDRESS READ|WRITE CYCLE".into(),
        ),
        ("", "FILE holds no request; a line of dramsim3 is 0xADDRESS READ|WRITE CYCLE".into()),
    ] {
        assert_eq!(said("dramsim3", text), expected);
    }
    let back = "900,hm,1,Read,0,512,1\n800,hm,1,Read,0,512,1\n";
    assert!(
        said("msr", back).contains("line 2, `800,hm,1,Read,0,512,1`: its time lies before 900")
    );
}

#[test]
fn a_trace_of_several_volumes_is_told_and_one_can_be_chosen() {
    let text = "0,R,4096,4096,10\n7,W,8192,512,20\n0,R,0,4096,30\n";
    let told = said("alibaba", text);
    assert!(told.contains("line 2") && told.contains("--set workload.volume=7"), "{told}");
    let of_7 = read_all("alibaba", text, &[("volume", "7")]);
    assert_eq!((of_7.len(), of_7[0].address, of_7[0].ticks), (1, 8192, Some(0)));
    assert_eq!(read_all("alibaba", text, &[("volume", "0")])[1].ticks, Some(20));
    let none = Scratch::new(text.as_bytes()).open_with("alibaba", &[("volume", "9")]);
    let told = none.map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("holds no request of volume 9; a line of alibaba"), "{told}");
    let text = "1,hm,0,Read,0,512,9\n2,hm,1,Read,0,512,9\n";
    assert_eq!(read_all("msr", text, &[("volume", "hm,1")]).len(), 1);
}

#[test]
fn choices_that_make_no_sense_are_told() {
    let file = Scratch::new(b"1 0 8 16 0\n");
    let told = file.open_with("mqsim", &[("unit", "s")]).map(|_| ()).unwrap_err().to_string();
    assert_eq!(told, "unit = s: it is no unit that MQSim knows; write ps, ns or us");
    let told = file.open_with("blkparse", &[("event", "C")]).map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("write Q, D or I"), "{told}");
    assert_eq!(file.open_with("mqsim", &[("unit", "us")]).unwrap().times(), Times::Ps(1_000_000));
}

#[test]
fn logs_of_fio_have_times_by_their_version() {
    let text = "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a read 0 4096\n/dev/a wait 100 0\n\
                /dev/a write 4096 512\n/dev/a wait 50\n/dev/a sync\n/dev/a wait 150 0\n\
                /dev/a trim 0 8192\n/dev/a close\n";
    let told: Vec<_> =
        read_all("fio", text, &[]).iter().map(|one| (one.kind.name(), one.ticks)).collect();
    // 50 ms from the start are over when they come to be waited for.
    let expected = [
        ("read", None),
        ("write", Some(100_000)),
        ("flush", Some(100_000)),
        ("trim", Some(150_000)),
    ];
    assert_eq!(told, expected);
    let text = "fio version 3 iolog\n2 a add\n872 a open\n878 a write 0 16384\n891 a sync 0 0\n";
    let read = read_all("fio", text, &[]);
    assert_eq!(
        (read[0].bytes, read[0].ticks, read[1].kind),
        (16384, Some(878), RequestKind::Flush)
    );
    for (text, why) in [
        ("a read 0 4096\n", "the first line is `fio version 2 iolog`"),
        ("fio version 3 iolog\n1 a wait 5\n", "`wait` is nothing that a log of fio does"),
        ("fio version 3 iolog\n1 a read 0\n", "read has no offset and length"),
        ("fio version 2 iolog\na read 0 0\n", "its size is 0"),
        ("fio version 2 iolog\na read 0 1\nb read 0 1\n", "of the volume b"),
    ] {
        let told = said("fio", text);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_line_may_have_512_bytes_and_no_more() {
    let line = |bytes: usize, end: &str| format!("0x40 READ{}1{end}", " ".repeat(bytes - 10));
    for end in ["", "\n", "\r\n"] {
        assert_eq!(read_all("dramsim3", &line(512, end), &[]).len(), 1, "{end:?}");
        let told = said("dramsim3", &line(513, end));
        assert!(told.contains("longer than 512 bytes"), "{told}");
    }
}

#[test]
fn what_pzstd_writes_is_read() {
    // A frame to be skipped, of four bytes, before each frame (RFC 8878, 3.1.2).
    let skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00\x19\x00\x00\x00";
    let parts = [b"0x40 READ 1\n", b"0x80 READ 2\n"].map(|text| zstd_of(text));
    let bytes = [&skipped[..], &parts[0], &skipped[..], &parts[1]].concat();
    assert_eq!(all(Scratch::new(&bytes).open("dramsim3").unwrap()).unwrap().len(), 2);
}

#[test]
fn a_last_line_without_its_end_is_remarked_on() {
    for (text, cut) in [("0x40 R\n0x80 W\n", false), ("0x40 R\n0x8", true)] {
        let file = Scratch::new(text.as_bytes());
        let mut reader = file.open("ramulator").unwrap();
        while let Ok(Some(_)) = reader.next() {}
        let told = reader.remarks();
        assert_eq!(told.iter().any(|one| one.contains("has no end")), cut, "{text}: {told:?}");
    }
}

#[test]
fn records_of_size_nought_are_counted() {
    let request = |bytes| TraceRequest { bytes, ticks: Some(1), ..TraceRequest::default() };
    let format = find("oracle-general").unwrap();
    let (mut bytes, _) = written(format, &[request(512); 3]);
    bytes[24 + 12..24 + 16].fill(0);
    let file = Scratch::new(&bytes);
    let mut reader = file.open("oracle-general").unwrap();
    while let Ok(Some(_)) = reader.next() {}
    let told = reader.remarks();
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("1 records of size 0 of "), "{told:?}");
}

#[test]
fn a_trim_of_a_whole_device_comes_in_parts() {
    let gib = 1u64 << 30;
    let text = format!("fio version 3 iolog\n1 a trim 4096 {}\n", 2 * gib + 512);
    let parts: Vec<_> =
        read_all("fio", &text, &[]).iter().map(|one| (one.address, u64::from(one.bytes))).collect();
    assert_eq!(parts, [(4096, gib), (4096 + gib, gib), (4096 + 2 * gib, 512)]);
    let text = "8,0 3 1 0.5 697 Q DS 8 + 4194304 [fstrim]\n";
    let parts = read_all("blkparse", text, &[]);
    assert_eq!(parts.iter().map(|one| u64::from(one.bytes)).collect::<Vec<_>>(), [gib, gib]);
    for text in ["1 a trim 0 99999999999999999", "1 a trim 18446744073709551615 4096"] {
        let told = said("fio", &format!("fio version 3 iolog\n{text}\n"));
        assert!(told.contains("more than 64 TiB, or beyond"), "{told}");
    }
}

#[test]
fn a_line_of_names_that_a_format_does_not_know_is_told_how_to_be_one() {
    let told = said("dramsim3", "address command cycle\n0x40 READ 1\n");
    assert!(told.contains("(a line of names begins with #)"), "{told}");
    let told = said("dramsim3", "0x40 READ 1\naddress command cycle\n");
    assert!(!told.contains("begins with #"), "{told}");
}

#[test]
fn a_line_without_end_is_not_read_to_its_end() {
    let told = Scratch::new(&vec![b'7'; 64 << 20]).said("dramsim3");
    assert!(told.starts_with("FILE, line 1, `7777"), "{told}");
    assert!(told.contains("…`: the line is longer than 512 bytes; a line of dramsim3"), "{told}");
}

#[test]
fn no_request_is_looked_for_without_end_in_what_is_a_few_kilobytes_packed() {
    let mut text = b"0x40 READ 1\n".to_vec();
    text.resize(text.len() + (128 << 20), b'\n');
    text.extend(b"0x80 READ 2\n");
    for (_, pack) in &PACKERS[1..] {
        let packed = pack(&text);
        assert!(packed.len() < 1 << 20);
        let mut reader = Scratch::new(&packed).open("dramsim3").unwrap();
        assert!(reader.next().unwrap().is_some());
        let told = reader.next().unwrap_err().to_string();
        assert!(told.contains("the 64 MiB up to here hold no request"), "{told}");
    }
}

#[test]
fn what_is_no_text_or_no_file_is_refused() {
    let told = Scratch::new(b"\xff\xfe\x00\n").said("ramulator");
    assert!(told.contains("the line is not text"), "{told}");
    for (bytes, by) in [(&b"BZh9"[..], "bzip2"), (b"7z\xbc\xaf", "7-Zip")] {
        let told = Scratch::new(bytes).said("ramulator");
        assert!(told.contains(by) && told.contains("compress it by gzip, xz or zstd"), "{told}");
    }
    let format = find("ramulator").unwrap();
    for (path, why) in
        [("/nowhere/x.trc", "no such file"), ("/tmp", "directory"), ("/dev/zero", "no regular")]
    {
        let opened = TraceReader::open(Path::new(path), format, &Choices::new());
        let told = opened.map(|_| ()).unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_compressed_trace_that_is_cut_short_or_damaged_tells_where() {
    let (text, _) = trace(&vec![(64, false, 1); 100_000]);
    for (name, pack) in &PACKERS[1..] {
        let packed = pack(&text);
        let told = Scratch::new(&packed[..packed.len() / 2]).said("dramsim3");
        assert!(told.starts_with("FILE cannot be read behind line"), "{name}: {told}");
        assert!(told.contains("cut short"), "{name}: {told}");
        let mut damaged = packed.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].fill(0x5a);
        let told = Scratch::new(&damaged).said("dramsim3");
        assert!(told.starts_with("FILE"), "{name}: {told}");
    }
}

#[test]
fn several_members_streams_and_frames_are_one_trace() {
    for (name, pack) in &PACKERS[1..] {
        let both = [pack(b"0x40 READ 1\n0x80 RE"), pack(b"AD 2\n")].concat();
        let read = all(Scratch::new(&both).open("dramsim3").unwrap()).unwrap();
        assert_eq!(read.len(), 2, "{name}");
    }
}

#[test]
fn records_that_end_in_the_middle_are_told_with_their_number() {
    let (mut bytes, _) = written(
        find("oracle-general").unwrap(),
        &[TraceRequest { bytes: 512, ticks: Some(7), ..TraceRequest::default() }; 3],
    );
    bytes.pop();
    let told = Scratch::new(&bytes).said("oracle-general");
    assert!(told.starts_with("FILE, record 3, `07 00 00 00"), "{told}");
    assert!(told.contains("in the middle of a record, after 23 of 24 bytes"), "{told}");
}

#[test]
fn what_formats_leave_open_must_be_said() {
    let convert_with = |from: &str, text: &str, to: &str, how: &How| {
        let file = Scratch::new(text.as_bytes());
        let mut reader = file.open(from).unwrap();
        let mut out = Vec::new();
        let done = convert(&mut reader, find(to).unwrap(), how, &mut out, |_| true);
        done.map(|_| String::from_utf8_lossy(&out).into_owned()).map_err(|why| why.to_string())
    };
    let cycles = "0x40 READ 12\n0x80 WRITE 13\n";
    let plain = How::default();
    let told = convert_with("dramsim3", cycles, "mqsim", &plain).unwrap_err();
    assert!(told.contains("--clock"), "{told}");
    let clock = How { clock: Some(Clock::from_hertz(1_200_000_000)), ..How::default() };
    let made = convert_with("dramsim3", cycles, "mqsim", &clock).unwrap();
    assert_eq!(made, "10 0 0 1 1\n10 0 0 1 0\n", "12 and 13 cycles of 1.2 GHz");
    let back = convert_with("mqsim", "10 0 0 1 1\n", "dramsim3", &clock).unwrap();
    assert_eq!(back.lines().count(), 8, "lines of a sector");
    assert!(back.starts_with("0x0 READ 12\n0x40 READ 12\n"), "{back}");
    let told = convert_with("ramulator", "0x40 R\n0x80 W\n", "msr", &plain).unwrap_err();
    assert!(told.contains("--interval"), "{told}");
    let told = convert_with("ramulator", "0x40 R\n", "dramsim3", &plain).unwrap_err();
    assert!(told.contains("--interval 10ns --clock 1.2GHz"), "both at once: {told}");
    let told = convert_with("ramulator", "0x40 R\n", "dramsim3", &clock).unwrap_err();
    assert!(told.contains("--interval") && !told.contains("--clock"), "{told}");
    let apart = How { interval_ps: Some(1_000_000), ..How::default() };
    let made = convert_with("ramulator", "0x40 R\n0x80 W\n", "msr", &apart).unwrap();
    assert_eq!(made, "0,tierscope,0,Read,64,64,0\n10,tierscope,0,Write,128,64,0\n");
}

/// A request of a log of version 2 comes when the wait before it is over: in whole milliseconds when it comes in version 3.
#[test]
fn logs_of_fio_are_written_in_either_version_and_read_the_same() {
    let text = "fio version 3 iolog\n5 a read 4096 4096\n5 a write 0 512\n2078 a sync 0 0\n3000 a trim 0 8192\n";
    let read = read_all("fio", text, &[]);
    for version in ["2", "3"] {
        let choices = Choices::from([("version".to_owned(), version.to_owned())]);
        let how = How { choices, ..How::default() };
        let mut source = Listed { all: read.clone().into_iter(), times: Times::Ps(1_000_000) };
        let unit_us = if version == "2" { 1000 } else { 1 };
        let expected: Vec<_> = read
            .iter()
            .map(|one| TraceRequest { ticks: one.ticks.map(|us| us / unit_us * unit_us), ..*one })
            .collect();
        let mut bytes = Vec::new();
        convert(&mut source, find("fio").unwrap(), &how, &mut bytes, |_| true).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with(&format!("fio version {version} iolog\n")), "{text}");
        assert_eq!(read_all("fio", &text, &[]), expected, "{text}");
    }
    let wrong = Choices::from([("version".to_owned(), "4".to_owned())]);
    assert!((find("fio").unwrap().writer.unwrap().new)(&wrong).is_err());
}

/// Operations of a thread.
#[derive(Clone)]
pub(super) struct OneThread(pub std::collections::VecDeque<Op>);

impl Stream for OneThread {
    fn pull(&mut self, _: ThreadId, limit: usize, out: &mut Vec<Op>) -> Result<Pull, StreamError> {
        let count = limit.min(self.0.len());
        out.extend(self.0.drain(..count));
        Ok(if count == 0 { Pull::End } else { Pull::More })
    }

    fn fork(&self) -> Box<dyn Stream> {
        Box::new(self.clone())
    }
}

/// What came of a thread's operations in a format, read again as those of a program: accesses with the instructions
/// up to each, and those behind the last.
fn read_as_program(ops: &[Op], format: &str) -> (Vec<(bool, u64, u64)>, u64, Converted) {
    let mut source = Accesses::of(Box::new(OneThread(ops.to_vec().into())), None);
    let mut bytes = Vec::new();
    let converted =
        convert(&mut source, find(format).unwrap(), &How::default(), &mut bytes, |_| true).unwrap();
    let file = Scratch::new(&bytes);
    let trace = ProgramTrace::open(
        std::slice::from_ref(&file.0),
        find(format).unwrap(),
        &Choices::new(),
        1,
    )
    .unwrap();
    let mut again = Accesses::of(Box::new(trace), None);
    let mut read = Vec::new();
    while let Some(one) = again.next().unwrap() {
        read.push((one.is_write(), one.address, again.instructions().unwrap()));
    }
    (read, again.instructions().unwrap(), converted)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn instructions_of_a_program_come_back_from_what_tells_them(
        accesses in proptest::collection::vec((1u64..1 << 30, any::<bool>(), 0u32..500, 0u32..4), 1..12),
        behind in 0u32..1500,
    ) {
        let mut ops = Vec::new();
        let mut expected = Vec::new();
        for (line, write, instructions, before) in accesses {
            let address = line * 64;
            // Some of them are no access's own.
            ops.push(Op::compute(instructions * before));
            ops.push(if write { Op::store(address, 8, instructions) } else { Op::load(address, 8, instructions) });
            expected.push((write, address, u64::from(instructions * (before + 1))));
        }
        ops.push(Op::compute(behind));
        for format in ["drmemtrace", "lackey"] {
            let (read, left, converted) = read_as_program(&ops, format);
            // A trace that tells of no instruction up to an access has each count as one.
            let counts = expected.iter().position(|it| it.2 > 0).unwrap_or(expected.len());
            let told: Vec<_> = (0..).zip(&expected).map(|(number, it)| {
                (it.0, it.1, it.2.max(u64::from(number < counts)))
            }).collect();
            prop_assert_eq!(read, told, "{}", format);
            prop_assert_eq!(left, u64::from(behind), "{}", format);
            let differ = (converted.instructions_left_out, converted.instructions_added);
            prop_assert_eq!(differ, (0, 0), "{}", format);
        }
        for format in ["champsim", "ramulator-cpu"] {
            let (read, left, converted) = read_as_program(&ops, format);
            let told: Vec<_> = expected.iter().map(|it| (it.0, it.1, it.2.max(1))).collect();
            prop_assert_eq!(&read, &told, "{}", format);
            let behind = u64::from(behind);
            let (told, lost) = if format == "champsim" { (behind, 0) } else { (0, behind) };
            prop_assert_eq!((left, converted.instructions_left_out), (told, lost), "{}", format);
            let added = expected.iter().filter(|it| it.2 == 0).count() as u64;
            prop_assert_eq!(converted.instructions_added, added, "{}", format);
        }
    }
}

#[test]
fn a_program_trace_made_of_requests_counts_an_instruction_an_access() {
    let file = Scratch::new(b"0x40 READ 1\n0x80 WRITE 2\n");
    let mut reader = file.open("dramsim3").unwrap();
    let mut bytes = Vec::new();
    let format = find("drmemtrace").unwrap();
    convert(&mut reader, format, &How::default(), &mut bytes, |_| true).unwrap();
    let file = Scratch::new(&bytes);
    let trace =
        ProgramTrace::open(std::slice::from_ref(&file.0), format, &Choices::new(), 1).unwrap();
    let mut again = Accesses::of(Box::new(trace), None);
    while again.next().unwrap().is_some() {}
    assert_eq!(again.beside().instructions, 2);
}

#[test]
fn what_threads_do_beside_requests_is_counted_as_left_out() {
    let mut ops = vec![
        Op::non_temporal_store(64, 8, 2),
        Op::flush(64, 0, 1),
        Op::fence(crate::op::FLAG_STORES, 3),
        Op::load(128, 8, 4),
    ];
    Call::Read { file: 0, offset: 0, length: 10, address: 0 }.encode(5, &mut ops);
    let source = || Accesses::of(Box::new(OneThread(ops.clone().into())), None);
    let ramulator = find("ramulator").unwrap();
    let done =
        convert(&mut source(), ramulator, &How::default(), &mut Vec::new(), |_| true).unwrap();
    let expected = Converted {
        read: 2,
        written: 2,
        sizes_left_out: 2,
        file_calls_left_out: 1,
        non_temporal_as_plain: 1,
        line_flushes_left_out: 1,
        fences_left_out: 1,
        ..Converted::default()
    };
    assert_eq!(done, expected);
    // The instructions of a part end with its last request.
    let mut first = First::new(Box::new(source()), 1);
    let drmemtrace = find("drmemtrace").unwrap();
    let done = convert(&mut first, drmemtrace, &How::default(), &mut Vec::new(), |_| true).unwrap();
    assert_eq!((done.written, done.instructions_left_out, done.instructions_added), (1, 0, 0));
    let mut all = source();
    while all.step().unwrap().is_some() {}
    assert_eq!(all.beside().instructions, 15);
}

/// Keeps nothing but how much it was given.
#[derive(Default)]
struct Counting {
    bytes: usize,
    most_at_once: usize,
}

impl std::io::Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += bytes.len();
        self.most_at_once = self.most_at_once.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A request of 1 GiB is 16 million lines of `ramulator`, and 16 thousand parts of `drmemtrace`.
#[test]
fn a_conversion_asks_for_what_it_writes_whether_to_go_on_and_lets_none_of_it_gather() {
    let request =
        TraceRequest { address: 64, bytes: 1 << 30, kind: RequestKind::Read, ticks: None };
    let all: Vec<TraceRequest> = (0..100).map(|_| request).collect();
    for name in ["ramulator", "drmemtrace"] {
        let mut source = Listed { all: all.clone().into_iter(), times: Times::Absent };
        let (mut asked, mut to) = (Vec::new(), Counting::default());
        let done = convert(&mut source, find(name).unwrap(), &How::default(), &mut to, |passed| {
            asked.push(passed.requests);
            asked.len() < 3
        });
        let (asked_at_once, done) = (asked.len(), done.unwrap());
        assert_eq!(asked_at_once, 3, "{name}: {asked:?}");
        assert!(asked[2] <= 4, "{name}: {asked:?}");
        assert!((40_000..60_000).contains(&done.written), "{name}: {}", done.written);
        assert!(to.most_at_once < 1 << 17, "{name}: {} bytes at once", to.most_at_once);
    }
}
