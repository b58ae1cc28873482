//! Volumes of a trace: disks, devices, files. A device is one; so one of them is taken, or they are laid one behind
//! the other.

use super::format::{ChoiceError, Choices, FormatOption};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierscope_units::Size;

/// The option of formats whose files may hold several volumes that says which is taken.
pub const VOLUME: FormatOption = FormatOption {
    name: "volume",
    default: "the only one that the trace has",
    meaning: "Which volume (disk, device, file) of the trace to take, where it has several.",
};

/// The option that lays them one behind the other.
pub const VOLUMES: FormatOption = FormatOption {
    name: "volumes",
    default: "none: one is taken",
    meaning: "How volumes are laid one behind the other on the device: a size that each is given, in the order in \
              which they come, such as 64GiB; sizes by name, such as 3=8GiB;7=64GiB, of which all others are left out; or \
              measured: as far as the requests of each reach, for which the trace is read once before.",
};

/// Both.
pub const OF_VOLUMES: &[FormatOption] = &[VOLUME, VOLUMES];

/// What of a volume is said for `volumes`, so that each has as much as its requests reach.
const MEASURED: &str = "measured";
/// A volume that was measured begins at a multiple of so many bytes, as partitions do: more than pages of flash.
const ALIGNED_BYTES: u64 = 1 << 20;
/// Volumes of a device at most.
const MOST_VOLUMES: usize = 1 << 16;
/// Volumes that a remark names.
const NAMED: usize = 8;

/// Where a volume lies on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    base: u64,
    bytes: u64,
}

/// The whole device.
const EVERYWHERE: Place = Place { base: 0, bytes: u64::MAX };

/// What says how large volumes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Each has so many bytes.
    Each(u64),
    /// Those that are listed are all.
    Listed,
    /// How far requests reach is found out.
    Measured,
}

#[derive(Debug)]
struct List {
    rule: Rule,
    places: Vec<(String, Place)>,
}

/// Volumes one behind the other, as one or more files tell of them.
#[derive(Clone, Debug)]
pub struct Places(Arc<Mutex<List>>);

impl Places {
    fn new(rule: Rule, places: Vec<(String, Place)>) -> Self {
        Places(Arc::new(Mutex::new(List { rule, places })))
    }

    /// What is under the lock is whole at any time.
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(choices: &Choices) -> Result<Option<Self>, ChoiceError> {
        let Some(said) = choices.get(VOLUMES.name) else { return Ok(None) };
        let wrong = |reason: String, mend: &str| ChoiceError {
            name: VOLUMES.name,
            value: said.clone(),
            reason,
            mend: mend.into(),
        };
        if choices.contains_key(VOLUME.name) {
            let reason = "one volume was chosen, which lies where it is by itself".into();
            return Err(wrong(reason, "leave out this, or workload.volume"));
        }
        if said == MEASURED {
            return Ok(Some(Places::new(Rule::Measured, Vec::new())));
        }
        let size = |text: &str| match text.parse::<Size>() {
            Ok(size) if size.bytes() > 0 => Ok(size.bytes()),
            Ok(_) => Err(wrong("a volume has some bytes".into(), "write 64GiB, or another size")),
            Err(error) => Err(wrong(error.reason, &error.mend)),
        };
        if !said.contains('=') {
            return Ok(Some(Places::new(Rule::Each(size(said)?), Vec::new())));
        }
        let mut list = List { rule: Rule::Listed, places: Vec::new() };
        for one in said.split(';') {
            let Some((name, bytes)) = one.rsplit_once('=').filter(|(name, _)| !name.is_empty())
            else {
                let reason = format!("`{one}` is no NAME=SIZE");
                return Err(wrong(reason, "write 3=8GiB;7=64GiB, of whatever volumes there are"));
            };
            if list.places.iter().any(|(known, _)| known == name) {
                return Err(wrong(format!("{name} stands there twice"), "name it once"));
            }
            list.add(name, size(bytes)?).map_err(|why| wrong(why, "give them less"))?;
        }
        Ok(Some(Places(Arc::new(Mutex::new(list)))))
    }

    /// Whether they are to be measured.
    pub fn are_unmeasured(choices: &Choices) -> bool {
        choices.get(VOLUMES.name).is_some_and(|said| said == MEASURED)
    }

    /// Lays what was measured one behind the other.
    ///
    /// # Errors
    /// Where all of it is more than addresses reach.
    pub fn settle(&self) -> Result<(), String> {
        let mut list = self.lock();
        let found = std::mem::take(&mut list.places);
        list.rule = Rule::Listed;
        for (name, place) in found {
            let bytes = place.bytes.max(1).checked_next_multiple_of(ALIGNED_BYTES);
            list.add(&name, bytes.unwrap_or(u64::MAX))?;
        }
        Ok(())
    }

    /// Where they lie, in words.
    pub fn remark(&self) -> Option<String> {
        let list = self.lock();
        if list.rule == Rule::Measured || list.places.is_empty() {
            return None;
        }
        let mut told = String::from("Volumes lie one behind the other:");
        for (number, (name, place)) in list.places.iter().take(NAMED).enumerate() {
            let comma = if number > 0 { "," } else { "" };
            // A text takes all that is written to it.
            let _ = write!(told, "{comma} {name} from byte {} on", place.base);
        }
        let more = list.places.len().saturating_sub(NAMED);
        if more > 0 {
            let _ = write!(told, ", and {more} more");
        }
        Some(told)
    }
}

impl List {
    fn add(&mut self, name: &str, bytes: u64) -> Result<Place, String> {
        let base = self.places.last().map_or(0, |(_, last)| last.base + last.bytes);
        if self.places.len() == MOST_VOLUMES {
            return Err(format!("there are more than {MOST_VOLUMES} volumes"));
        }
        if base.checked_add(bytes).is_none() {
            return Err("all volumes together have more than 2^64 - 1 bytes".into());
        }
        let place = Place { base, bytes };
        self.places.push((name.to_owned(), place));
        Ok(place)
    }

    /// Where a volume lies; nothing where it is left out.
    fn find(&mut self, name: &str) -> Result<Option<Place>, String> {
        let known = self.places.iter().find(|(known, _)| known == name);
        match (known, self.rule) {
            (Some(_), Rule::Measured) => Ok(Some(EVERYWHERE)),
            (Some((_, place)), _) => Ok(Some(*place)),
            (None, Rule::Each(bytes)) => self.add(name, bytes).map(Some),
            (None, Rule::Listed) => Ok(None),
            (None, Rule::Measured) => {
                self.places.push((name.to_owned(), Place { base: 0, bytes: 0 }));
                Ok(Some(EVERYWHERE))
            }
        }
    }

    /// Takes it that a volume reaches so far.
    fn reaches(&mut self, number: usize, end: u64) {
        if let Some((_, place)) = self.places.get_mut(number) {
            place.bytes = place.bytes.max(end);
        }
    }
}

/// The part of a trace of several volumes that is wanted: the one that was chosen, the only one that there is, or all
/// that are laid one behind the other.
#[derive(Clone, Debug)]
pub struct Volume {
    chosen: Option<String>,
    /// The one that came first, where none was chosen.
    first: Option<String>,
    places: Option<Places>,
    /// Where the volumes that have come lie, and their number where they are measured.
    known: HashMap<String, (Option<Place>, usize)>,
    /// The volume of the request before.
    last: String,
    last_place: Option<(Option<Place>, usize)>,
    measures: bool,
}

impl Volume {
    /// As was said.
    ///
    /// # Errors
    /// Where that makes no sense.
    pub fn of(choices: &Choices) -> Result<Self, ChoiceError> {
        let chosen = choices.get(VOLUME.name).cloned();
        let places = Places::of(choices)?;
        Ok(Volume {
            chosen,
            first: None,
            measures: Places::are_unmeasured(choices),
            places,
            known: HashMap::new(),
            last: String::new(),
            last_place: None,
        })
    }

    /// Which one requests are of, as far as that is known.
    pub fn name(&self) -> Option<&str> {
        self.chosen.as_deref().or(self.first.as_deref())
    }

    /// Where volumes lie, if several do.
    pub fn places(&self) -> Option<&Places> {
        self.places.as_ref()
    }

    /// Lays volumes where those of other files are laid, too.
    pub fn share(&mut self, places: &Places) {
        self.measures = places.lock().rule == Rule::Measured;
        self.places = Some(places.clone());
        self.known.clear();
        self.last_place = None;
    }

    /// The address on the device of so many bytes of the volume `name`; nothing where that is not wanted.
    ///
    /// # Errors
    /// Where none was chosen and it is not the volume of those before, or where the volume has not so much room.
    #[inline]
    pub fn place(&mut self, name: &str, address: u64, bytes: u64) -> Result<Option<u64>, String> {
        let (place, number) = match self.last_place {
            Some(found) if self.last == name => found,
            _ => self.find(name)?,
        };
        let Some(place) = place else { return Ok(None) };
        let end = address.saturating_add(bytes);
        if self.measures
            && let Some(places) = &self.places
        {
            places.lock().reaches(number, end);
        }
        if end > place.bytes {
            return Err(format!(
                "it reaches to byte {end} of the volume {name}, which is given {} bytes: give it more \
                 with workload.volumes, or write workload.volumes=measured",
                place.bytes
            ));
        }
        Ok(Some(place.base + address))
    }

    #[cold]
    fn find(&mut self, name: &str) -> Result<(Option<Place>, usize), String> {
        let found = match (&self.places, self.known.get(name)) {
            (Some(_), Some(found)) => *found,
            (Some(places), None) => {
                let mut list = places.lock();
                let place = list.find(name)?;
                let number = list.places.iter().position(|(known, _)| known == name);
                let found = (place, number.unwrap_or(usize::MAX));
                self.known.insert(name.to_owned(), found);
                found
            }
            (None, _) => (self.wants(name)?.then_some(EVERYWHERE), 0),
        };
        name.clone_into(&mut self.last);
        self.last_place = Some(found);
        if self.first.is_none() && found.0.is_some() {
            self.first = Some(name.to_owned());
        }
        Ok(found)
    }

    fn wants(&self, name: &str) -> Result<bool, String> {
        match (&self.chosen, &self.first) {
            (Some(chosen), _) => Ok(chosen == name),
            (None, Some(first)) if first != name => Err(format!(
                "it is of the volume {name}, and those before are of {first}: a device is given one; \
                 choose with workload.volume, as in --set workload.volume={name}, or lay them one behind the other \
                 with workload.volumes"
            )),
            _ => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Scratch;
    use super::super::{OpenError, RequestSource, find, open};
    use super::*;
    use proptest::prelude::*;

    /// Volume, byte and bytes of requests.
    type Asked = Vec<(usize, u64, u64)>;

    const NAMES: [&str; 3] = ["3", "7", "1063"];

    fn source(
        files: &[&Scratch],
        format: &str,
        volumes: &str,
    ) -> Result<Box<dyn RequestSource>, OpenError> {
        let files: Vec<_> = files.iter().map(|file| file.0.clone()).collect();
        let choices = Choices::from([("volumes".to_owned(), volumes.to_owned())]);
        open(&files, find(format).unwrap(), &choices, &mut || true)
    }

    fn addresses(source: &mut dyn RequestSource) -> Vec<u64> {
        std::iter::from_fn(|| source.next().unwrap().map(|one| one.address)).collect()
    }

    /// A trace of Alibaba's, whose requests come a microsecond apart from `start` on.
    fn trace(asked: &Asked, start: usize) -> Scratch {
        let lines = asked.iter().enumerate().map(|(number, (volume, address, bytes))| {
            format!("{},R,{address},{bytes},{}\n", NAMES[*volume], start + number)
        });
        Scratch::new(lines.collect::<String>().as_bytes())
    }

    fn said(result: Result<Box<dyn RequestSource>, OpenError>) -> String {
        match result {
            Err(error) => error.to_string(),
            Ok(mut source) => {
                let mut next = std::iter::repeat_with(|| source.next());
                next.find_map(Result::err).unwrap().to_string()
            }
        }
    }

    fn asked() -> impl Strategy<Value = Asked> {
        let one = (0usize..3, 0u64..1 << 30, 1u64..1 << 20);
        proptest::collection::vec(one, 1..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// No byte of the device is of two volumes, each volume stays what it was, and it is the same from any fork on.
        #[test]
        fn volumes_lie_one_behind_the_other_however_large_they_are(
            asked in asked(),
            more in asked(),
            measured: bool,
            at in 0usize..80,
        ) {
            let (one, two) = (trace(&asked, 5), trace(&more, 5 + asked.len()));
            let volumes = if measured { "measured" } else { "2GiB" };
            let mut found = source(&[&one, &two], "alibaba", volumes).unwrap();
            let all: Asked = asked.iter().chain(&more).copied().collect();
            let at = at.min(all.len());
            let mut addresses: Vec<u64> =
                (0..at).map(|_| found.next().unwrap().unwrap().address).collect();
            let rest = super::tests::addresses(&mut *found.fork().unwrap());
            prop_assert_eq!(&rest, &super::tests::addresses(&mut *found));
            addresses.extend(rest);
            let mut order = Vec::new();
            // Files are merged by looking at the first request of each.
            let first = if measured { vec![] } else { vec![asked[0], more[0]] };
            for (volume, ..) in first.iter().chain(&all) {
                if !order.contains(volume) {
                    order.push(*volume);
                }
            }
            let mut expected = [0; 3];
            let mut base = 0u64;
            for volume in order {
                let of_it = all.iter().filter(|(of, ..)| *of == volume);
                let end = of_it.map(|(_, address, bytes)| address + bytes).max().unwrap();
                expected[volume] = base;
                base += if measured { end.next_multiple_of(1 << 20) } else { 2 << 30 };
            }
            let expected: Vec<u64> =
                all.iter().map(|(volume, address, _)| expected[*volume] + address).collect();
            prop_assert_eq!(addresses, expected);
        }
    }

    #[test]
    fn volumes_that_are_named_have_their_sizes_and_all_others_are_left_out() {
        let file = trace(&vec![(0, 512, 512), (1, 0, 4096), (2, 1 << 20, 512), (1, 8192, 1)], 1);
        let mut found = source(&[&file], "alibaba", "1063=2MiB;7=1MiB").unwrap();
        assert_eq!(addresses(&mut *found), [2 << 20, 1 << 20, (2 << 20) + 8192]);
        let told = "Volumes lie one behind the other: 1063 from byte 0 on, 7 from byte 2097152 on";
        assert_eq!(found.remarks(), [told]);
    }

    #[test]
    fn what_a_volume_has_no_room_for_is_an_error_with_its_line() {
        let file = trace(&vec![(0, 0, 512), (1, 4096, 4096)], 1);
        let told = said(source(&[&file], "alibaba", "4KiB"));
        let why = "line 2, `7,R,4096,4096,2`: it reaches to byte 8192 of the volume 7, which is given 4096 bytes";
        assert!(told.contains(why), "{told}");
        for (volumes, why) in [
            ("0B", "a volume has some bytes"),
            ("64", "write"),
            ("3=1MiB;=1MiB", "`=1MiB` is no NAME=SIZE"),
            ("3=1MiB;3=2MiB", "3 stands there twice"),
            ("3=16000000TiB;7=16000000TiB", "more than 2^64 - 1 bytes"),
        ] {
            let told = said(source(&[&file], "alibaba", volumes));
            assert!(told.contains(why), "{volumes}: {told}");
        }
        let both = Choices::from(["volume", "volumes"].map(|name| (name.into(), "1MiB".into())));
        let told = Volume::of(&both).unwrap_err().to_string();
        assert!(told.contains("leave out this, or workload.volume"), "{told}");
    }

    #[test]
    fn a_measurement_ends_where_that_is_wanted_and_tells_what_is_wrong_anywhere() {
        let many = trace(&vec![(0, 0, 512); 1 << 16], 1);
        let choices = Choices::from([("volumes".to_owned(), "measured".to_owned())]);
        let format = find("alibaba").unwrap();
        let opened = open(std::slice::from_ref(&many.0), format, &choices, &mut || false);
        assert_eq!(opened.err().unwrap().to_string(), "it was interrupted");
        let wrong = Scratch::new(b"3,R,0,512,5\n3,R,0,512,4\n");
        assert!(said(source(&[&wrong], "alibaba", "measured")).contains("line 2"));
    }

    #[test]
    fn every_format_that_names_volumes_lays_them() {
        for (format, text) in [
            ("msr", "1,h,0,Read,512,512,0\n2,h,1,Write,0,512,0\n"),
            ("tencent", "1,1,1,0,3\n2,0,1,1,4\n"),
            ("systor17", "1.0,0.0,R,0,512,512\n2.0,0.0,W,1,0,512\n"),
            ("mqsim", "1 0 1 1 1\n2 1 0 1 0\n"),
            ("fio", "fio version 3 iolog\n1 /a read 512 512\n2 /b trim 0 512\n"),
            ("blkparse", "8,0 0 1 0.1 9 Q R 1 + 1 [x]\n8,16 0 2 0.2 9 Q D 0 + 1 [x]\n"),
        ] {
            let file = Scratch::new(text.as_bytes());
            let mut found = source(&[&file], format, "1MiB").unwrap();
            assert_eq!(addresses(&mut *found), [512, 1 << 20], "{format}");
            let mut found = source(&[&file], format, "measured").unwrap();
            assert_eq!(addresses(&mut *found), [512, 1 << 20], "{format}");
        }
        let event = |device: u32, sector: u64, ns: u64| {
            let mut record = 0x6561_7407u32.to_le_bytes().to_vec();
            record.extend(0u32.to_le_bytes());
            record.extend([ns, sector].map(u64::to_le_bytes).concat());
            // Queued, to read.
            let words = [512, 1 << 16 | 1 << 20 | 1, 0, device, 0, 0];
            record.extend(words.map(u32::to_le_bytes).concat());
            record
        };
        let file = Scratch::new(&[event(8 << 20, 1, 5), event(8 << 20 | 16, 0, 6)].concat());
        let mut found = source(&[&file], "blktrace", "1MiB").unwrap();
        assert_eq!(addresses(&mut *found), [512, 1 << 20]);
    }
}
