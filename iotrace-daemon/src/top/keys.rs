//! The keys and the mouse: one table for what they do, for the help on the screen and for the documentation.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};

use super::state::{Grouping, State};

/// A key, and what it does.
type Action = (KeyCode, fn(&mut State));

/// Keys that belong together.
pub struct Binding {
    /// As the help and the documentation name them, the first one first.
    pub names: &'static str,
    pub description: &'static str,
    /// What the last line of the screen says of the first key; `None` if it is not there.
    pub hint: Option<&'static str>,
    actions: &'static [Action],
}

impl Binding {
    /// The key that is named first.
    pub fn first_name(&self) -> &'static str {
        self.names.split(' ').next().unwrap_or_default()
    }
}

/// All keys. Control-C is in no row: it also quits where a key is text.
pub const BINDINGS: [Binding; 14] = [
    Binding {
        names: "Tab",
        description: "switch between processes and files",
        hint: Some("view"),
        actions: &[(KeyCode::Tab, State::turn)],
    },
    Binding {
        names: "p",
        description: "rows by process and phase, or by process",
        hint: Some("phases"),
        actions: &[(KeyCode::Char('p'), |state| {
            state.group(Grouping::ByPhase);
        })],
    },
    Binding {
        names: "T",
        description: "a tree of processes, or a list",
        hint: Some("tree"),
        actions: &[(KeyCode::Char('T'), |state| state.group(Grouping::Tree))],
    },
    Binding {
        names: "s S → ←",
        description: "sort by the next column, by the previous one",
        hint: None,
        actions: &[
            (KeyCode::Char('s'), |state| state.sort_by_neighbour(true)),
            (KeyCode::Right, |state| state.sort_by_neighbour(true)),
            (KeyCode::Char('S'), |state| state.sort_by_neighbour(false)),
            (KeyCode::Left, |state| state.sort_by_neighbour(false)),
        ],
    },
    Binding {
        names: "R",
        description: "reverse the order",
        hint: None,
        actions: &[(KeyCode::Char('R'), State::reverse)],
    },
    Binding {
        names: "r",
        description: "record the selected process; end its recording",
        hint: Some("record"),
        actions: &[(KeyCode::Char('r'), |state| state.is_recording_wanted = true)],
    },
    Binding {
        names: "/",
        description: "filter; Enter keeps the filter, Esc clears it",
        hint: Some("filter"),
        actions: &[(KeyCode::Char('/'), |state| state.typing = true)],
    },
    Binding {
        names: "t",
        description: "totals since the start, or rates",
        hint: None,
        actions: &[(KeyCode::Char('t'), |state| {
            state.shows_totals = !state.shows_totals;
        })],
    },
    Binding {
        names: "Space",
        description: "freeze the screen; counting continues",
        hint: Some("pause"),
        actions: &[(KeyCode::Char(' '), State::pause)],
    },
    Binding {
        names: "↓ ↑ j k PgDn PgUp Home",
        description: "select a row",
        hint: None,
        actions: &[
            (KeyCode::Down, |state| state.select_further(1)),
            (KeyCode::Char('j'), |state| state.select_further(1)),
            (KeyCode::Up, |state| state.select_further(-1)),
            (KeyCode::Char('k'), |state| state.select_further(-1)),
            (KeyCode::PageDown, |state| state.select_further(10)),
            (KeyCode::PageUp, |state| state.select_further(-10)),
            (KeyCode::Home, |state| state.select_further(isize::MIN)),
        ],
    },
    Binding {
        names: "click",
        description: "select a row; on a title: sort, again: reverse",
        hint: None,
        actions: &[],
    },
    Binding {
        names: "wheel",
        description: "scroll",
        hint: None,
        actions: &[],
    },
    Binding {
        names: "?",
        description: "show the keys; any key closes them",
        hint: Some("help"),
        actions: &[(KeyCode::Char('?'), |state| state.shows_help = true)],
    },
    Binding {
        names: "q Esc Ctrl-C",
        description: "quit",
        hint: Some("quit"),
        actions: &[
            (KeyCode::Char('q'), |state| state.is_over = true),
            (KeyCode::Esc, |state| state.is_over = true),
        ],
    },
];

/// Lines that the wheel scrolls at once.
const WHEEL_LINES: isize = 3;

/// Whether an event changes the screen. The terminal also sends each movement of the mouse.
pub fn is_of_use(event: &Event) -> bool {
    match event {
        Event::Key(key) => key.kind != KeyEventKind::Release,
        Event::Mouse(mouse) => matches!(
            mouse.kind,
            MouseEventKind::Down(MouseButton::Left)
                | MouseEventKind::ScrollDown
                | MouseEventKind::ScrollUp
        ),
        Event::Resize(..) => true,
        Event::FocusGained | Event::FocusLost | Event::Paste(_) => false,
    }
}

/// Does what a key or the mouse says.
pub fn take(state: &mut State, event: &Event) {
    match event {
        Event::Key(key) => press(state, *key),
        Event::Mouse(_) if state.shows_help => state.shows_help = false,
        Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(_) => state.click(mouse.column, mouse.row),
            MouseEventKind::ScrollDown => state.scroll(WHEEL_LINES),
            MouseEventKind::ScrollUp => state.scroll(-WHEEL_LINES),
            _ => {}
        },
        _ => {}
    }
}

fn press(state: &mut State, key: KeyEvent) {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        state.is_over |= key.code == KeyCode::Char('c');
    } else if state.shows_help {
        state.shows_help = false;
    } else if state.typing {
        type_filter(state, key.code);
    } else {
        let mut all = BINDINGS.iter().flat_map(|binding| binding.actions);
        if let Some((_, act)) = all.find(|(code, _)| *code == key.code) {
            act(state);
        }
    }
}

fn type_filter(state: &mut State, code: KeyCode) {
    match code {
        KeyCode::Enter => state.typing = false,
        KeyCode::Esc => {
            state.typing = false;
            state.filter.clear();
        }
        KeyCode::Backspace => drop(state.filter.pop()),
        KeyCode::Char(letter) => state.filter.push(letter),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fmt::Write as _};

    use super::*;

    #[test]
    fn no_key_does_two_things() {
        let all = BINDINGS.iter().flat_map(|binding| binding.actions);
        let mut codes = HashSet::new();
        for (code, _) in all {
            assert!(codes.insert(code), "{code}");
        }
    }

    #[test]
    fn the_documentation_has_the_keys() {
        let mut table = "| key | action |\n|---|---|\n".to_owned();
        for binding in &BINDINGS {
            let _ = writeln!(table, "| {} | {} |", binding.names, binding.description);
        }
        let page = include_str!("../../../docs/guide/live.md");
        assert!(page.contains(&table), "docs/guide/live.md lacks\n{table}");
    }

    #[test]
    fn any_key_closes_the_help_and_does_nothing_else() {
        let mut state = State::new(false, String::new());
        let press = |state: &mut State, code| press(state, KeyEvent::from(code));
        press(&mut state, KeyCode::Char('?'));
        assert!(state.shows_help);
        take(&mut state, &Event::Resize(80, 24));
        assert!(state.shows_help, "a resize is no key");
        press(&mut state, KeyCode::Char('q'));
        assert!(!state.shows_help && !state.is_over);
        press(&mut state, KeyCode::Char('q'));
        assert!(state.is_over);
    }

    #[test]
    fn the_mouse_scrolls_and_its_movements_are_of_no_use() {
        use ratatui::crossterm::event::MouseEvent;
        let event = |kind| {
            Event::Mouse(MouseEvent {
                kind,
                column: 0,
                row: 0,
                modifiers: KeyModifiers::NONE,
            })
        };
        let mut state = State::new(false, String::new());
        let wheel = event(MouseEventKind::ScrollDown);
        assert!(is_of_use(&wheel) && !is_of_use(&event(MouseEventKind::Moved)));
        take(&mut state, &wheel);
        assert_eq!(state.above, 3);
        state.shows_help = true;
        take(&mut state, &wheel);
        assert!(!state.shows_help && state.above == 3);
        take(&mut state, &event(MouseEventKind::ScrollUp));
        assert_eq!(state.above, 0);
    }

    #[test]
    fn keys_are_text_while_the_filter_is_typed() {
        let mut state = State::new(false, String::new());
        for code in ["/", "q", "?"].map(|text| text.chars().next()) {
            press(&mut state, KeyEvent::from(KeyCode::Char(code.unwrap())));
        }
        assert_eq!(
            (state.filter.as_str(), state.is_over, state.shows_help),
            ("q?", false, false)
        );
        press(
            &mut state,
            KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
        );
        assert!(state.is_over);
    }
}
