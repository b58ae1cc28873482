//! Failures of power of a store: as main memory, of which lines are asked for, what it has answered is there,
//! if it keeps that; a drive alone keeps what its buffer, flushes and forced writes promise.

use super::pages::Pages;
use super::{Asked, BlockDevice, Data, LINE_BYTES};
use crate::organization::versions::History;
use crate::power::{
    Guarantees, LOST, Origin, Outage, PowerFailure, Recovery, Step, UnderWay, Weakness, Weaknesses,
    cut_store,
};
use crate::request::{Control, Device};
use std::ops::Range;
use tierscope_kernel::Slab;

impl BlockDevice {
    fn followed(&self) -> &Data {
        match &self.data {
            Some(data) => data,
            None => unreachable!("whoever lets power fail checks data"),
        }
    }

    /// Versions of lines, or of the pages of a drive alone.
    fn history(&self) -> &History {
        match &self.followed {
            Some(pages) => &pages.history,
            None => &self.followed().history,
        }
    }

    /// Follows the pages of a drive alone.
    fn prepare_drive(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        let device = &mut self.device;
        if let Some(&one) = weaknesses.iter().find(|one| !device.can_lack(**one)) {
            return Err(Some(one));
        }
        if !device.follow_contents(weaknesses.iter().copied().collect()) {
            return Err(None);
        }
        self.followed = Some(Box::new(Pages::new(device.keeps_answered())));
        Ok(())
    }
}

impl PowerFailure for BlockDevice {
    /// Of main memory nothing can be left out: the store is taken at its word.
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        let keeps = self.device.keeps_answered();
        let Some(data) = &mut self.data else { return self.prepare_drive(weaknesses) };
        if let Some(&one) = weaknesses.first() {
            return Err(Some(one));
        }
        if !keeps {
            return Err(None);
        }
        data.history.follow();
        self.device.follow_contents(Weaknesses::default());
        Ok(())
    }

    fn guarantees(&self) -> Guarantees {
        if self.followed.is_none() {
            return Guarantees {
                store: "nothing while its line is in on-chip caches",
                flush: "survives, in the store, once its line is written back",
                fua: "as a flush",
            };
        }
        let fua = "in the medium once answered";
        if self.device.can_lack(Weakness::NoBattery) {
            return Guarantees {
                store: "in the adapter's cache, which a battery keeps, once answered",
                flush: "ends at once: all that was answered is kept",
                fua: "as a plain write",
            };
        }
        match (self.device.can_lack(Weakness::NoCapacitors), self.device.keeps_answered()) {
            (true, _) => Guarantees {
                store: "in the drive's buffer, which capacitors keep, once answered",
                flush: "ends at once: all that was answered is kept",
                fua,
            },
            (false, true) => Guarantees { store: fua, flush: "ends at once", fua },
            (false, false) => Guarantees {
                store: "nothing: the drive's buffer is lost",
                flush: "all that was answered before it is in the medium once it is answered",
                fua,
            },
        }
    }

    fn under_way(&self) -> UnderWay {
        let commands = self.commands.len() as u64;
        UnderWay { commands, ..self.device.under_way() }
    }

    fn steps(&self) -> Vec<Step> {
        let controls = self.commands.iter().filter_map(|(id, command)| {
            let Asked::Control(_, control) = command.asked else { return None };
            let what = if control == Control::Flush { "flush" } else { "trim" };
            Some(Step { what, number: u64::from(id), address: command.start })
        });
        controls.collect()
    }

    fn cut(&mut self, now_ps: u64) -> Outage {
        let outage = cut_store(&mut self.device, now_ps);
        (self.commands, self.accesses) = (Slab::new(), Slab::new());
        (self.claims, self.blocked) = (super::Claims::default(), 0);
        self.waiting.clear();
        if let Some(pages) = &mut self.followed {
            // What the drive holds of these is no longer what it was given last.
            let touched = outage.touched.iter().map(|address| address / self.page_bytes);
            touched.for_each(|page| pages.history.touch(page, 1));
        }
        outage
    }

    /// There is nothing to be done.
    fn recover(&mut self, _now_ps: u64) -> Recovery {
        Recovery::default()
    }

    fn found(&self, address: u64) -> Option<(u64, Origin)> {
        let version = match self.followed {
            Some(_) => self.device.content(address),
            None => self.followed().content.get(address / LINE_BYTES),
        };
        (version != LOST).then_some((version, Origin::Store))
    }

    fn promised(&self, line: u64) -> u64 {
        match &self.followed {
            Some(pages) => pages.promised.get(line),
            None => self.answered(line),
        }
    }

    fn answered(&self, line: u64) -> u64 {
        self.history().answered().get(line)
    }

    fn promise(&mut self, line: u64, version: u64) {
        if let Some(data) = &mut self.data {
            data.history.promise(line, version);
        }
    }

    fn synced(&self, line: u64) -> u64 {
        match &self.followed {
            Some(_) => 0,
            None => self.followed().history.synced(line),
        }
    }

    fn written(&self, line: u64) -> u64 {
        self.history().submitted().get(line)
    }

    fn each_written(&self, tell: &mut dyn FnMut(u64, u64)) {
        self.history().submitted().iter().for_each(|(line, newest)| tell(line, newest));
    }

    fn touched(&mut self) -> Vec<Range<u64>> {
        match (&mut self.followed, &mut self.data) {
            (Some(pages), _) => pages.history.take_touched(),
            (None, Some(data)) => data.history.take_touched(),
            (None, None) => Vec::new(),
        }
    }

    fn line_of(&self, version: u64) -> Option<u64> {
        self.history().line_of(version)
    }
}
