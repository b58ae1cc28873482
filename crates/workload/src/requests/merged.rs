//! Several traces of requests for one device, in the order in which their requests arrive.

use super::{Choices, Format, OpenError, Places, RequestSource, Times, TraceReader, TraceRequest};
use crate::stream::StreamError;
use std::collections::BTreeSet;
use std::path::PathBuf;
use tierscope_kernel::MOST_TIME_PS;

/// Requests of several files of a format by their times; of those of one time, the files' order. Where times
/// count from somewhere before the traces, all count from the first request of any.
pub struct Merged {
    files: Vec<File>,
    /// The file of the request given last.
    last: usize,
}

struct File {
    reader: TraceReader,
    /// The request that comes next, once that was asked for.
    next: Option<Option<TraceRequest>>,
}

impl Merged {
    /// Opens all files.
    ///
    /// # Errors
    /// Where one cannot be read, or their times cannot be compared.
    pub fn open(
        files: &[PathBuf],
        format: &'static Format,
        choices: &Choices,
    ) -> Result<Self, OpenError> {
        if files.iter().any(|file| file.as_os_str().is_empty()) {
            return Err(OpenError::Wrong(
                "a name is missing between commas; leave out the comma".to_owned(),
            ));
        }
        let readers: Result<Vec<TraceReader>, OpenError> =
            files.iter().map(|path| TraceReader::open(path, format, choices)).collect();
        let mut readers = readers?;
        let times = readers.first().map_or(Times::Absent, RequestSource::times);
        let differ = readers.iter().position(|reader| reader.times() != times);
        if let (Some(number), _) | (None, Some(number)) =
            (differ, (times == Times::Absent).then_some(0))
        {
            let name = files[number].display();
            return Err(OpenError::Wrong(format!(
                "{} files are given, whose requests come in the order of their times, and {} of {name} {}; \
                 give one file",
                files.len(),
                if times == Times::Absent { "requests" } else { "times" },
                if times == Times::Absent { "have none" } else { "are of another unit" },
            )));
        }
        if let Some(number) = readers.iter().position(TraceReader::begins_without_time) {
            return Err(OpenError::Wrong(format!(
                "{} files are given, whose requests come in the order of their times, and those {} begins with have \
                 none; give it by itself",
                files.len(),
                files[number].display(),
            )));
        }
        let starts = || (0..).zip(&readers).filter_map(|(at, one)| Some((one.start()?, at)));
        if let (Some((start, first)), Some((last_start, last))) = (starts().min(), starts().max()) {
            let unit_ps = if let Times::Ps(unit_ps) = times { unit_ps } else { 1 };
            if (last_start - start).saturating_mul(unit_ps) > MOST_TIME_PS {
                return Err(OpenError::Wrong(format!(
                    "{} begins at {start} and {} at {last_start}, further apart than a run takes: their times \
                     count from different starts; give each by itself, or times from one start",
                    files[first].display(),
                    files[last].display()
                )));
            }
            readers.iter_mut().for_each(|reader| reader.count_from(start));
        }
        // Where volumes lie one behind the other, those of all files do.
        if let Some(places) = readers.first().and_then(|reader| reader.places().cloned()) {
            readers.iter_mut().for_each(|reader| reader.lay(&places));
        }
        let files = readers.into_iter().map(|reader| File { reader, next: None }).collect();
        Ok(Merged { files, last: 0 })
    }
}

impl Merged {
    /// Lays volumes where they were measured, before the first request is asked for.
    pub(super) fn lay(&mut self, places: &Places) {
        self.files.iter_mut().for_each(|file| file.reader.lay(places));
    }
}

impl File {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        let next = match self.next {
            Some(next) => next,
            None => self.reader.next()?,
        };
        self.next = Some(next);
        Ok(next)
    }
}

impl RequestSource for Merged {
    fn next(&mut self) -> Result<Option<TraceRequest>, StreamError> {
        let mut first: Option<(u64, usize)> = None;
        for (number, file) in self.files.iter_mut().enumerate() {
            // What is wrong is told of the file that has it.
            self.last = number;
            let Some(request) = file.next()? else { continue };
            let ticks = request.ticks.unwrap_or(0);
            if first.is_none_or(|(least, _)| ticks < least) {
                first = Some((ticks, number));
            }
        }
        let Some((_, number)) = first else { return Ok(None) };
        self.last = number;
        Ok(self.files[number].next.take().flatten())
    }

    fn times(&self) -> Times {
        self.files.first().map_or(Times::Absent, |file| file.reader.times())
    }

    fn fit(&mut self, unit_bytes: u64) -> Result<(), StreamError> {
        self.files.iter_mut().try_for_each(|file| file.reader.fit(unit_bytes))
    }

    fn share(&self) -> Option<f64> {
        let shares: Option<f64> = self.files.iter().map(|file| file.reader.share()).sum();
        shares.map(|sum| sum / self.files.len() as f64)
    }

    fn remarks(&self) -> Vec<String> {
        let volumes: BTreeSet<&str> =
            self.files.iter().filter_map(|file| file.reader.volume()).collect();
        let places = self.files.first().and_then(|file| file.reader.places());
        let overlap = (volumes.len() > 1 && places.is_none()).then(|| {
            let named: Vec<&str> = volumes.iter().copied().take(4).collect();
            let more = if volumes.len() > named.len() { " and others" } else { "" };
            format!(
                "{}{more} are different volumes, which lie over each other on the one device: an address of one is \
                 that address of the others; to lay them one behind the other, set workload.volumes",
                named.join(", ")
            )
        });
        let of_files = self.files.iter().flat_map(|file| file.reader.remarks_of_file());
        let places = places.and_then(Places::remark);
        overlap.into_iter().chain(places).chain(of_files).collect()
    }

    fn place(&self) -> String {
        self.files[self.last].reader.place()
    }

    fn fork(&self) -> Result<Box<dyn RequestSource>, StreamError> {
        let files: Result<Vec<File>, StreamError> = self
            .files
            .iter()
            .map(|file| Ok(File { reader: file.reader.again()?, next: file.next }))
            .collect();
        Ok(Box::new(Merged { files: files?, last: self.last }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::super::tests::Scratch;
    use super::*;
    use proptest::prelude::*;

    fn open(files: &[&Scratch], format: &str) -> Result<Merged, OpenError> {
        let files: Vec<PathBuf> = files.iter().map(|file| file.0.clone()).collect();
        Merged::open(&files, find(format).unwrap(), &Choices::new())
    }

    fn all(source: &mut dyn RequestSource) -> Vec<(u64, Option<u64>)> {
        let next = || source.next().unwrap().map(|one| (one.address, one.ticks));
        std::iter::from_fn(next).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn files_are_merged_as_sorting_by_time_would(
            mut files in proptest::collection::vec(proptest::collection::vec(0u64..40, 1..30), 1..4),
            start in 1u64..1000,
            at in 0usize..40,
        ) {
            files.iter_mut().for_each(|times| times.sort_unstable());
            let mut expected = Vec::new();
            let mut written = Vec::new();
            for (number, times) in (0u64..).zip(&files) {
                let mut text = String::new();
                for time in times {
                    let offset = number << 20;
                    text += &format!("{},srv,{number},Read,{offset},512,0\n", start + time);
                    expected.push((*time, number, offset));
                }
                written.push(Scratch::new(text.as_bytes()));
            }
            expected.sort_by_key(|(time, number, _)| (*time, *number));
            let first = expected[0].0;
            let expected: Vec<_> =
                expected.iter().map(|(time, _, offset)| (*offset, Some(time - first))).collect();
            let mut merged = open(&written.iter().collect::<Vec<_>>(), "msr").unwrap();
            let at = at.min(expected.len());
            for one in &expected[..at] {
                let next = merged.next().unwrap().unwrap();
                prop_assert_eq!((next.address, next.ticks), *one);
            }
            let mut fork = merged.fork().unwrap();
            prop_assert_eq!(all(&mut *fork), &expected[at..]);
            prop_assert_eq!(all(&mut merged), &expected[at..]);
        }
    }

    #[test]
    fn what_is_wrong_is_told_of_the_file_that_has_it() {
        let good = Scratch::new(b"5 0 8 8 1\n900 0 8 8 1\n");
        let bad = Scratch::new(b"7 0 8 8 1\n6 0 8 8 1\n");
        let mut merged = open(&[&good, &bad], "mqsim").unwrap();
        assert_eq!(merged.next().unwrap().unwrap().ticks, Some(5));
        let told = std::iter::repeat_with(|| merged.next()).find_map(Result::err).unwrap();
        let (told, name) = (told.to_string(), bad.0.display().to_string());
        assert!(told.contains(&name) && told.contains("line 2"), "{told}");
        let untimed = Scratch::new(b"0x40 R\n");
        let told = open(&[&untimed, &untimed], "ramulator").err().unwrap().to_string();
        assert!(told.contains("have none; give one file"), "{told}");
        let no_times = Scratch::new(b"fio version 2 iolog\n/dev/a read 0 4096\n");
        let waits = Scratch::new(b"fio version 2 iolog\n/dev/b wait 5\n/dev/b read 0 4096\n");
        let told = open(&[&waits, &no_times], "fio").err().unwrap().to_string();
        assert!(told.contains(&no_times.0.display().to_string()), "{told}");
        assert!(told.contains("begins with have none; give it by itself"), "{told}");
        let third = Scratch::new(b"fio version 3 iolog\n7 /dev/c read 0 4096\n");
        let merged = open(&[&waits, &third], "fio").unwrap();
        assert!(merged.remarks()[0].starts_with("/dev/b, /dev/c are different volumes"));
        assert!(open(&[&third, &third], "fio").unwrap().remarks().is_empty());
        let since_1601 = Scratch::new(b"128166372003061629,h,0,Read,0,4096,1\n");
        let from_0 = Scratch::new(b"1000,h,0,Read,0,4096,1\n");
        let told = open(&[&since_1601, &from_0], "msr").err().unwrap().to_string();
        assert!(told.contains("count from different starts"), "{told}");
        assert!(told.find(&from_0.0.display().to_string()) == Some(0), "{told}");
        let files = [good.0.clone(), PathBuf::new()];
        let told = Merged::open(&files, find("mqsim").unwrap(), &Choices::new()).err().unwrap();
        assert!(told.to_string().contains("leave out the comma"));
    }
}
