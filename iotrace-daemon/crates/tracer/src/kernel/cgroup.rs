//! Control groups: where the kernel keeps a task's, which the programs send at an exec.

use iotrace_common::abi::{
    Setting,
    globals::{self, CGROUP_1_FIELDS, CGROUP_FIELDS},
};

use super::{btf::Types, offsets};

/// Bytes of a pointer.
const POINTER: u64 = 8;

/// What the programs must be told; or why groups are known by /proc alone, which has nothing of programs that have ended.
pub fn find(types: &Types) -> Result<Vec<Setting>, String> {
    let mut settings = offsets::all_optional(types, CGROUP_FIELDS)?;
    settings.extend(version_1(types).unwrap_or_default());
    settings.push(globals::CGROUP.set(true));
    Ok(settings)
}

/// Of the memory hierarchy, where the kernel has one.
fn version_1(types: &Types) -> Option<Vec<Setting>> {
    let memory = types.enumerator("cgroup_subsys_id", "memory_cgrp_id")?;
    let states = types.offset("css_set", "subsys")?;
    let mut settings = offsets::all_optional(types, CGROUP_1_FIELDS).ok()?;
    settings.push(globals::SET_MEMORY.set(states + memory * POINTER));
    Some(settings)
}
