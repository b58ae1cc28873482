//! Failures of power of a memory behind a link, without DRAM of its own: what it has answered is there, if the
//! store keeps that (\[HAMS21\] flatflash-P: the drive's DRAM is persistent).

use super::{Data, Tiered};
use crate::organization::hybrid::Port;
use crate::organization::versions::History;
use crate::power::{
    Guarantees, Origin, Outage, PowerFailure, Recovery, UnderWay, Weakness, Weaknesses, cut_store,
};
use crate::request::Device;
use std::ops::Range;
use tierscope_kernel::{CowMap, EventQueue, Slab, Stage};

impl<D: Device, S: Device> Tiered<D, S> {
    fn followed(&self) -> &Data {
        match &self.data {
            Some(data) => data,
            None => unreachable!("whoever lets power fail checks data"),
        }
    }

    fn history(&self) -> &History {
        &self.followed().history
    }
}

impl<D: Device, S: Device> PowerFailure for Tiered<D, S> {
    /// Nothing can be left out: the store is taken at its word. Pages in DRAM are not followed.
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        let keeps = self.store.device().keeps_answered() && self.near.is_none();
        let Some(data) = self.data.as_mut().filter(|_| keeps) else { return Err(None) };
        if let Some(&one) = weaknesses.first() {
            return Err(Some(one));
        }
        data.history.follow();
        self.store.device_mut().follow_contents(Weaknesses::default());
        Ok(())
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "nothing while its line is in on-chip caches",
            flush: "survives, in the drive, once its line is written back",
            fua: "as a flush",
        }
    }

    fn under_way(&self) -> UnderWay {
        UnderWay { commands: self.held.len() as u64, ..self.store.device().under_way() }
    }

    fn cut(&mut self, now_ps: u64) -> Outage {
        let outage = cut_store(self.store.device_mut(), now_ps);
        let ids = 2 * self.most + 2;
        self.store = Port::new(self.store.device_mut().fork(), ids, Stage::StoreQueue);
        (self.held, self.timers) = (Slab::new(), EventQueue::new());
        outage
    }

    /// There is nothing to be done.
    fn recover(&mut self, _now_ps: u64) -> Recovery {
        Recovery::default()
    }

    fn found(&self, address: u64) -> Option<(u64, Origin)> {
        Some((self.followed().far.get(self.line(address)), Origin::Store))
    }

    fn promised(&self) -> &CowMap<u64> {
        self.history().answered()
    }

    fn written(&self) -> &CowMap<u64> {
        self.history().submitted()
    }

    fn touched(&mut self) -> Vec<Range<u64>> {
        self.data.as_mut().map(|data| data.history.take_touched()).unwrap_or_default()
    }

    fn line_of(&self, version: u64) -> Option<u64> {
        self.history().line_of(version)
    }
}
