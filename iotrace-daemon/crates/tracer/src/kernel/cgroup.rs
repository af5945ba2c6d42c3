//! Control groups: where the kernel keeps a task's, which the programs send at an exec.

use super::{
    btf::Types,
    offsets::{self, Setting},
};

/// Fields on the way from a task to the names of its group.
const FIELDS: [offsets::Optional; 4] = [
    ("TASK_CGROUPS", "task_struct", "cgroups"),
    ("SET_GROUP", "css_set", "dfl_cgrp"),
    ("GROUP_NODE", "cgroup", "kn"),
    ("NODE_NAME", "kernfs_node", "name"),
];
/// The field of a group's node that leads to its parent; the second name from Linux 6.15 on.
const PARENT: [&str; 2] = ["parent", "__parent"];
/// Bytes of a pointer.
const POINTER: u64 = 8;

/// What the programs must be told; or why groups are known by /proc alone, which has nothing of programs that have ended.
pub fn find(types: &Types) -> Result<Vec<Setting>, String> {
    let mut settings = offsets::all_optional(types, &FIELDS)?;
    let parent = PARENT
        .into_iter()
        .find_map(|name| types.offset("kernfs_node", name));
    let parent =
        parent.ok_or("this kernel's type information has no kernfs_node.parent or .__parent")?;
    settings.push(("NODE_PARENT", parent));
    settings.extend(version_1(types).unwrap_or_default());
    settings.push(("CGROUP", 1));
    Ok(settings)
}

/// Of the memory hierarchy, where the kernel has one.
fn version_1(types: &Types) -> Option<Vec<Setting>> {
    let memory = types.enumerator("cgroup_subsys_id", "memory_cgrp_id")?;
    let states = types.offset("css_set", "subsys")?;
    let group = types.offset("cgroup_subsys_state", "cgroup")?;
    Some(vec![
        ("SET_MEMORY", states + memory * POINTER),
        ("STATE_GROUP", group),
    ])
}
