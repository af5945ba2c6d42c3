//! Whose turn it is. The tests of a program run as threads, several at a time; one that measures times or memory must not
//! share the machine with others, nor one that does so much that others lose by it.
//!
//! A turn lasts until the test's thread ends. Threads that a test starts have no name and take no turn.

use std::{
    cell::RefCell,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread,
};

static MACHINE: RwLock<()> = RwLock::new(());

enum Turn {
    Shared(#[expect(dead_code, reason = "held, not used")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held, not used")] RwLockWriteGuard<'static, ()>),
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Waits until no test has the machine alone, and keeps others from having it so while this test runs.
pub fn share() {
    if thread::current().name().is_none() {
        return;
    }
    TURN.with_borrow_mut(|turn| {
        turn.get_or_insert_with(|| {
            Turn::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
        });
    });
}

/// Waits until no other test runs, and lets none begin while this one runs.
pub fn alone() {
    if thread::current().name().is_none() {
        return;
    }
    TURN.with_borrow_mut(|turn| {
        if matches!(turn, Some(Turn::Alone(_))) {
            return;
        }
        // Its own share would be waited for.
        *turn = None;
        *turn = Some(Turn::Alone(
            MACHINE.write().unwrap_or_else(PoisonError::into_inner),
        ));
    });
}
