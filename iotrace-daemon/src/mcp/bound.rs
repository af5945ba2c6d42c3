//! Bounds of answers: what is too long is cut, and the answer says what, and how to ask for the rest.

use serde_json::{Map, Value, json};

/// Most bytes of an answer.
pub const MOST_BYTES: usize = 64 << 10;
/// Bytes of that which say what is cut.
const ROOM: usize = 4 << 10;
/// Bytes that are kept of a text that is cut.
const MOST_OF_TEXT: usize = 1 << 10;

/// An object as JSON. While it is too long, the longest of its lists is halved, or the longest text where no list has more than
/// one element; `rest` says how to ask for what is cut.
pub fn fitted(mut answer: Map<String, Value>, rest: &str) -> String {
    let mut cuts: Vec<Cut> = Vec::new();
    let mut value = Value::Object(std::mem::take(&mut answer));
    while value.to_string().len() > MOST_BYTES - ROOM {
        let Some(place) = longest(&value) else { break };
        let Some(found) = value.pointer_mut(&place) else {
            break;
        };
        let (whole, shown) = halve(found);
        match cuts.iter_mut().find(|cut| cut.place == place) {
            Some(cut) => cut.shown = shown,
            None => cuts.push(Cut {
                place,
                whole,
                shown,
            }),
        }
    }
    if !cuts.is_empty() {
        // One within a list that was cut later on may be gone.
        cuts.retain(|cut| value.pointer(&cut.place).is_some());
        cuts.truncate(8);
        let cut = |cut: &Cut| json!({"at": cut.place, "shown": cut.shown, "of": cut.whole});
        value["cut"] = cuts.iter().map(cut).collect();
        value["rest"] = rest.into();
    }
    value.to_string()
}

/// A list or text that is not whole.
struct Cut {
    /// JSON pointer.
    place: String,
    /// Elements, or bytes, that there were.
    whole: usize,
    shown: usize,
}

/// Halves a list, or cuts a text; how long it was, and is.
fn halve(value: &mut Value) -> (usize, usize) {
    match value {
        Value::Array(list) => {
            let whole = list.len();
            list.truncate(whole / 2);
            (whole, list.len())
        }
        Value::String(text) => {
            let whole = text.len();
            text.truncate(text.floor_char_boundary(MOST_OF_TEXT));
            (whole, text.len())
        }
        _ => (0, 0),
    }
}

/// Where the list is, as a JSON pointer, that takes the most bytes and has more than one element; else the longest text.
fn longest(value: &Value) -> Option<String> {
    let mut lists = (0, None);
    let mut texts = (MOST_OF_TEXT, None);
    visit(value, &mut String::new(), &mut |place, value, bytes| {
        let best = match value {
            Value::Array(list) if list.len() > 1 => &mut lists,
            Value::String(_) => &mut texts,
            _ => return,
        };
        if bytes > best.0 {
            *best = (bytes, Some(place.to_owned()));
        }
    });
    lists.1.or(texts.1)
}

/// Calls `see` with each value, where it is, and about how many bytes it takes; gives the bytes of the whole.
fn visit(value: &Value, place: &mut String, see: &mut impl FnMut(&str, &Value, usize)) -> usize {
    let end = place.len();
    let mut within = |name: &str, child: &Value| {
        place.push('/');
        place.push_str(&name.replace('~', "~0").replace('/', "~1"));
        let bytes = visit(child, place, see);
        place.truncate(end);
        bytes + 1
    };
    let bytes = match value {
        Value::Array(list) => {
            let children = list.iter().enumerate();
            children
                .map(|(index, child)| within(&index.to_string(), child))
                .sum()
        }
        Value::Object(map) => map
            .iter()
            .map(|(name, child)| name.len() + 3 + within(name, child))
            .sum(),
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    see(place, value, bytes);
    bytes
}

/// Lines of a text from line `offset` on, `limit` of them and no more than an answer may have.
pub fn lines(text: &str, offset: usize, limit: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    if offset > 0 && offset >= all.len() {
        return format!(
            "[there are {} lines: ask with a smaller \"offset\"]",
            all.len()
        );
    }
    let from = offset;
    let mut bytes = 0;
    let shown = all[from..].iter().take(limit).take_while(|line| {
        bytes += line.len() + 1;
        bytes <= MOST_BYTES - ROOM
    });
    let shown: Vec<&str> = shown.copied().collect();
    let end = from + shown.len();
    let mut text = shown.join("\n");
    if from > 0 || end < all.len() {
        text += &format!("\n[lines {} to {end} of {}", from + 1, all.len());
        if end < all.len() {
            text += &format!("; the rest: the same with \"offset\": {end}");
        }
        text += "]";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(value: Value) -> Value {
        let Value::Object(map) = value else { panic!() };
        let text = fitted(map, "ask again");
        assert!(text.len() <= MOST_BYTES, "{}", text.len());
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let value = json!({"a": [1, 2, 3], "b": "x".repeat(2_000)});
        assert_eq!(fit(value.clone()), value);
    }

    #[test]
    fn the_longest_list_is_cut_and_said() {
        let value = json!({"a": vec!["y".repeat(100); 2_000], "b": [1, 2, 3]});
        let value = fit(value);
        let shown = value["a"].as_array().unwrap().len();
        assert!((300..600).contains(&shown), "{shown}");
        assert_eq!(value["b"], json!([1, 2, 3]));
        assert_eq!(
            value["cut"],
            json!([{"at": "/a", "shown": shown, "of": 2_000}])
        );
        assert_eq!(value["rest"], "ask again");
    }

    #[test]
    fn a_long_text_is_cut() {
        let value = fit(json!({"a/b": {"command": ["\u{1F600}".repeat(30_000)]}}));
        let text = value["a/b"]["command"][0].as_str().unwrap();
        assert_eq!(text.len(), MOST_OF_TEXT);
        assert_eq!(value["cut"][0]["at"], "/a~1b/command/0");
    }

    #[test]
    fn lines_say_which_they_are() {
        assert_eq!(lines("a\nb\n", 0, 10), "a\nb");
        let text = lines("a\nb\nc\n", 1, 1);
        assert_eq!(
            text,
            "b\n[lines 2 to 2 of 3; the rest: the same with \"offset\": 2]"
        );
        assert!(lines("a\n", 5, 1).contains("there are 1 lines"));
        assert_eq!(lines("", 0, 1), "");
    }
}
