//! Failures of power of a memory behind a link: what it has answered is there, if the store keeps that
//! (\[HAMS21\] flatflash-P: the drive's DRAM is persistent). What is in DRAM of the host is lost: of a page that was
//! promoted nothing is promised but what it held in the store, until it has been written back there.

use super::near::Near;
use super::{Data, Tiered};
use crate::organization::hybrid::Port;
use crate::organization::versions::History;
use crate::power::{
    Guarantees, Origin, Outage, PowerFailure, Recovery, UnderWay, Weakness, Weaknesses, cut_store,
};
use crate::request::Device;
use std::ops::Range;
use tierscope_kernel::{CowMap, EventQueue, Slab, Stage};

/// DRAM as it starts.
#[derive(Debug)]
pub(super) struct Power<D> {
    fresh: Near<D>,
}

impl<D: Device> Power<D> {
    pub(super) fn fork(&mut self) -> Self
    where
        Port<D>: Clone,
    {
        Power { fresh: self.fresh.fork() }
    }
}

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
    /// The store is taken at its word.
    fn prepare(&mut self, weaknesses: &[Weakness]) -> Result<(), Option<Weakness>> {
        let keeps = self.store.device().keeps_answered();
        let Some(data) = self.data.as_mut().filter(|_| keeps) else { return Err(None) };
        let has_dram = self.near.is_some();
        let means_nothing = |one: &&Weakness| **one != Weakness::EarlyCompletion || !has_dram;
        if let Some(&one) = weaknesses.iter().find(means_nothing) {
            return Err(Some(one));
        }
        data.early = weaknesses.contains(&Weakness::EarlyCompletion);
        data.history.follow();
        self.power = self.near.as_mut().map(|near| Box::new(Power { fresh: near.fork() }));
        self.store.device_mut().follow_contents(Weaknesses::default());
        Ok(())
    }

    /// So that pages are written back now and then.
    fn promises_by_flush(&self) -> bool {
        self.near.is_some()
    }

    fn guarantees(&self) -> Guarantees {
        if self.near.is_some() {
            return Guarantees {
                store: "nothing while its line is in on-chip caches, or its page in DRAM",
                flush: "survives, in the drive, once its line is written back and its page is in the drive, or \
                        written back there",
                fua: "not used",
            };
        }
        Guarantees {
            store: "nothing while its line is in on-chip caches",
            flush: "survives, in the drive, once its line is written back",
            fua: "as a flush",
        }
    }

    fn under_way(&self) -> UnderWay {
        let fills = self.near.as_ref().map_or(0, |near| near.moves.len() as u64);
        let commands = self.held.len() as u64;
        UnderWay { commands, fills, ..self.store.device().under_way() }
    }

    fn cut(&mut self, now_ps: u64) -> Outage {
        let outage = cut_store(self.store.device_mut(), now_ps);
        self.store = Port::new(self.store.device_mut().fork(), self.ids, Stage::StoreQueue);
        if let (Some(near), Some(power)) = (&mut self.near, &mut self.power) {
            let _of_dram = cut_store(near.dram.device_mut(), now_ps);
            let dram = Port::new(near.dram.device_mut().fork(), self.ids, Stage::DramQueue);
            **near = power.fresh.fork();
            near.dram = dram;
        }
        if let Some(data) = &mut self.data {
            data.near = CowMap::new(0);
        }
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

    fn promised(&self, line: u64) -> u64 {
        self.history().answered().get(line)
    }

    fn promise(&mut self, line: u64, version: u64) {
        if let Some(data) = &mut self.data {
            data.history.promise(line, version);
        }
    }

    fn synced(&self, line: u64) -> u64 {
        self.history().synced(line)
    }

    fn written(&self, line: u64) -> u64 {
        self.history().submitted().get(line)
    }

    fn each_written(&self, tell: &mut dyn FnMut(u64, u64)) {
        self.history().submitted().iter().for_each(|(line, newest)| tell(line, newest));
    }

    fn touched(&mut self) -> Vec<Range<u64>> {
        self.data.as_mut().map(|data| data.history.take_touched()).unwrap_or_default()
    }

    fn line_of(&self, version: u64) -> Option<u64> {
        self.history().line_of(version)
    }
}
