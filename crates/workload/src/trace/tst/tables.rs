//! The tables of files and sites.

use super::block::{BlockHeader, BlockKind};
use super::{MAX_FILE_TABLE_BYTES, MAX_SITE_TABLE_BYTES, fields};
use crate::site::{Site, SiteGrain, SiteId, SiteTable};
use crate::stream::FileInfo;
use serde::{Deserialize, Serialize};

/// A site with its number, as a recording keeps it.
#[derive(Serialize, Deserialize)]
pub(super) struct NumberedSite {
    pub(super) number: SiteId,
    #[serde(flatten)]
    pub(super) site: Site,
}

/// The tables of a recording, as far as they have been read.
pub(super) struct Tables {
    pub(super) files: Vec<FileInfo>,
    pub(super) file_bytes: usize,
    pub(super) sites: SiteTable,
    pub(super) site_bytes: usize,
}

impl Tables {
    pub(super) fn new(grain: Option<SiteGrain>) -> Tables {
        let sites = grain.map_or_else(SiteTable::default, SiteTable::new);
        Tables { files: Vec::new(), file_bytes: 0, sites, site_bytes: 0 }
    }

    /// Takes the entries of a block.
    pub(super) fn take(&mut self, header: &BlockHeader, raw: &[u8]) -> Result<(), String> {
        match header.kind {
            BlockKind::Files => self.take_files(raw),
            BlockKind::Sites => self.take_sites(raw),
            _ => Err("it is not the block that the index says".into()),
        }
    }

    pub(super) fn take_files(&mut self, raw: &[u8]) -> Result<(), String> {
        self.file_bytes += raw.len();
        if self.file_bytes > MAX_FILE_TABLE_BYTES {
            return Err("the table of files is longer than it may be".into());
        }
        let files: Vec<FileInfo> = serde_json::from_slice(raw)
            .map_err(|error| fields::told("the table of files", raw, fields::FILES, &error))?;
        self.files.extend(files);
        Ok(())
    }

    pub(super) fn take_sites(&mut self, raw: &[u8]) -> Result<(), String> {
        self.site_bytes += raw.len();
        if self.sites.grain.is_none() {
            return Err("sites, and the header says that there are none".into());
        }
        if self.site_bytes > MAX_SITE_TABLE_BYTES {
            return Err("the table of sites is longer than it may be".into());
        }
        let sites: Vec<NumberedSite> = serde_json::from_slice(raw)
            .map_err(|error| fields::told("the table of sites", raw, fields::SITES, &error))?;
        for NumberedSite { number, site } in sites {
            if !self.sites.set(number, site) {
                return Err(format!("the table of sites: no site has the number {number}"));
            }
        }
        Ok(())
    }
}
