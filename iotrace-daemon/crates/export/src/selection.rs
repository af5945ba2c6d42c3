//! Which processes and phases are exported.

use iotrace_phases::phase::Phase;

/// What is exported: everything, unless processes or phases are named.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pids: Vec<u32>,
    /// Bits by [`Phase::code`]; 0: all.
    phases: u16,
}

impl Selection {
    /// Of process ids and names of phases (or of classes of `other`). Errs with the name that is none.
    pub fn new(pids: &[u32], phases: &[String]) -> Result<Self, String> {
        let mut selection = Self {
            pids: pids.to_vec(),
            phases: 0,
        };
        for name in phases {
            let of_name = |phase: &Phase| {
                phase.name() == name || phase.class().is_some_and(|class| class.name() == name)
            };
            let mut found = Phase::ALL.into_iter().filter(of_name).peekable();
            if found.peek().is_none() {
                return Err(name.clone());
            }
            found.for_each(|phase| selection.phases |= 1 << phase.code());
        }
        Ok(selection)
    }

    /// The process ids that are named; none: all processes.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Whether phases are named.
    pub fn is_by_phase(&self) -> bool {
        self.phases != 0
    }

    /// Whether a process is exported.
    pub fn has_process(&self, pid: u32) -> bool {
        self.pids.is_empty() || self.pids.contains(&pid)
    }

    /// Whether a phase is exported.
    pub fn has_phase(&self, phase: Phase) -> bool {
        self.phases == 0 || self.phases >> phase.code() & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrace_phases::phase::Class;

    #[test]
    fn names_select_phases_and_classes() {
        let all = Selection::default();
        assert!(all.has_phase(Phase::Training) && all.has_process(7));
        let some = Selection::new(&[7], &["other".into(), "restore".into()]).unwrap();
        assert!(some.has_phase(Phase::Other(Some(Class::Log))) && some.has_phase(Phase::Restore));
        assert!(!some.has_phase(Phase::Checkpoint) && !some.has_process(8));
        let log = Selection::new(&[], &["log".into()]).unwrap();
        assert!(!log.has_phase(Phase::UNMATCHED) && log.has_process(8));
        assert_eq!(Selection::new(&[], &["save".into()]).unwrap_err(), "save");
    }
}
