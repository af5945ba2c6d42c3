//! Whose turn it is. The tests of a program run as threads, several at a time. One that measures times or memory must not
//! share the machine with others, nor one that does so much that others lose by it, nor one that looks at all processes of a
//! user or at the logs of all jobs.
//!
//! A service sees the processes of all tests, so no two tests may use the same job number.
//!
//! A turn lasts until the test's thread ends. Threads that a test starts have no name and take no turn.

use crate::MAX_SHARING;
use std::{
    cell::RefCell,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

static TESTS: Mutex<Tests> = Mutex::new(Tests {
    sharing: 0,
    waiting_to_be_alone: 0,
    is_one_alone: false,
});
static ENDED: Condvar = Condvar::new();

/// Those that have a turn or wait for it.
struct Tests {
    sharing: u32,
    waiting_to_be_alone: u32,
    is_one_alone: bool,
}

enum Turn {
    Shared,
    Alone,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut tests = tests();
        match self {
            Self::Shared => tests.sharing -= 1,
            Self::Alone => tests.is_one_alone = false,
        }
        ENDED.notify_all();
    }
}

fn tests() -> MutexGuard<'static, Tests> {
    TESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits while `is_in_the_way` is true of those that have a turn.
fn wait_while(is_in_the_way: impl Fn(&Tests) -> bool) -> MutexGuard<'static, Tests> {
    ENDED
        .wait_while(tests(), |tests| is_in_the_way(tests))
        .unwrap_or_else(PoisonError::into_inner)
}

/// Waits until less than [`MAX_SHARING`] tests share the machine and none has it alone or waits for that, and keeps others
/// from having it alone while this test runs.
pub fn share() {
    if thread::current().name().is_none() {
        return;
    }
    TURN.with_borrow_mut(|turn| {
        turn.get_or_insert_with(|| {
            wait_while(|tests| {
                tests.is_one_alone || tests.waiting_to_be_alone > 0 || tests.sharing == MAX_SHARING
            })
            .sharing += 1;
            Turn::Shared
        });
    });
}

/// Waits until no other test runs, and lets none begin while this one runs.
pub fn alone() {
    if thread::current().name().is_none() {
        return;
    }
    TURN.with_borrow_mut(|turn| {
        if matches!(turn, Some(Turn::Alone)) {
            return;
        }
        // Its own share would be waited for.
        *turn = None;
        tests().waiting_to_be_alone += 1;
        let mut tests = wait_while(|tests| tests.is_one_alone || tests.sharing > 0);
        tests.waiting_to_be_alone -= 1;
        tests.is_one_alone = true;
        drop(tests);
        *turn = Some(Turn::Alone);
    });
}
