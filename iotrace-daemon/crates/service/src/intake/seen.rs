//! What a look at units beside their counters gave.

use std::collections::HashMap;

use crate::{
    findings::Found,
    totals::{Totals, UnitId},
};

/// What was seen of units.
pub struct Seen {
    pub open_files: Option<HashMap<UnitId, u64>>,
    pub findings: Option<(UnitId, Found)>,
}

impl Seen {
    /// Enters it into the totals.
    pub fn enter(self, totals: &mut Totals) {
        if let Some(counts) = self.open_files {
            // A unit whose processes are all gone has none open.
            let all: Vec<UnitId> = totals.units().all().map(|(unit, ..)| unit).collect();
            for unit in all {
                let open = counts.get(&unit).copied();
                if open.is_some() || totals.beside().contains_key(&unit) {
                    totals.set_beside(unit, |beside| {
                        beside.open_files = open.or(beside.open_files.map(|_| 0));
                    });
                }
            }
        }
        if let Some((unit, found)) = self.findings {
            totals.set_beside(unit, |beside| beside.findings = found.findings);
        }
    }
}
