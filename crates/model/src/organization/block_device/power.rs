//! Failures of power of a store that is main memory: what it has answered is there, if it keeps that.

use super::{BlockDevice, Data, LINE_BYTES};
use crate::power::{
    Guarantees, Origin, Outage, PowerFailure, Recovery, UnderWay, Weakness, Weaknesses, cut_store,
};
use crate::request::Device;
use std::ops::Range;
use tierscope_kernel::{CowMap, Slab};

impl BlockDevice {
    fn followed(&self) -> &Data {
        match &self.data {
            Some(data) => data,
            None => unreachable!("whoever lets power fail checks data"),
        }
    }
}

impl PowerFailure for BlockDevice {
    /// Nothing can be left out: the store is taken at its word.
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        if let Some(&one) = weaknesses.first() {
            return Err(Some(one));
        }
        let Some(data) = self.data.as_mut().filter(|_| self.device.keeps_answered()) else {
            return Err(None);
        };
        data.history.follow();
        self.device.follow_contents(Weaknesses::default());
        Ok(())
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "nothing while its line is in on-chip caches",
            flush: "survives, in the store, once its line is written back",
            fua: "as a flush",
        }
    }

    fn under_way(&self) -> UnderWay {
        let commands = self.commands.len() as u64;
        UnderWay { commands, ..self.device.under_way() }
    }

    fn cut(&mut self, now_ps: u64) -> Outage {
        let outage = cut_store(&mut self.device, now_ps);
        (self.commands, self.accesses) = (Slab::new(), Slab::new());
        self.waiting.clear();
        outage
    }

    /// There is nothing to be done.
    fn recover(&mut self, _now_ps: u64) -> Recovery {
        Recovery::default()
    }

    fn found(&self, address: u64) -> Option<(u64, Origin)> {
        Some((self.followed().content.get(address / LINE_BYTES), Origin::Store))
    }

    fn promised(&self) -> &CowMap<u64> {
        self.followed().history.answered()
    }

    fn written(&self) -> &CowMap<u64> {
        self.followed().history.submitted()
    }

    fn touched(&mut self) -> Vec<Range<u64>> {
        self.data.as_mut().map(|data| data.history.take_touched()).unwrap_or_default()
    }

    fn line_of(&self, version: u64) -> Option<u64> {
        self.followed().history.line_of(version)
    }
}
