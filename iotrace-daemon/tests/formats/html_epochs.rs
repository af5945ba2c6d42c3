//! The table of epochs on the page, and its bars.

use std::{fs, path::Path};

use super::{
    browser::Page,
    html::{color, duration, no_faults, page_of, rows, training},
};
use crate::common::{golden, number};
use iotrace_report::units;
use serde_json::Value;

/// Changes the data of a page, as if its report said something else.
fn with_other_data(page: &Path, change: impl FnOnce(&mut Value)) {
    const DATA_TAG: &str = "<script type=\"application/json\" id=\"data\">";
    let text = fs::read_to_string(page).expect("the page");
    let (before, rest) = text.split_once(DATA_TAG).expect("data");
    let (data, after) = rest.split_once("</script>").expect("its end");
    let mut data = serde_json::from_str(data).expect("JSON");
    change(&mut data);
    let data = data.to_string().replace('<', "\\u003c");
    fs::write(page, format!("{before}{DATA_TAG}{data}</script>{after}")).expect("a page");
}

/// Compares the table of epochs and its bars with the epochs of a report.
#[track_caller]
fn check_epochs(page: &mut Page, epochs: &[Value]) {
    let seconds = |epoch: &Value, key: &str| epoch[key].as_f64().expect("a time");
    let length = |epoch: &Value| seconds(epoch, "end") - seconds(epoch, "start");
    let largest = |of: &dyn Fn(&Value) -> f64| epochs.iter().map(of).fold(0.0, f64::max);
    let longest = largest(&length);
    let bytes = |epoch: &Value, key: &str| number(epoch, key) as f64;
    let most = largest(&|epoch| bytes(epoch, "bytes_read"));
    let titles = page.eval(
        "[...document.querySelectorAll('#epochs thead tr > *')].map(cell => cell.textContent)",
    );
    let titles: Vec<String> = serde_json::from_value(titles).expect("titles");
    let shown = rows(page, "epochs");
    assert_eq!(shown.len(), epochs.len());
    // Of each bar its pieces, as shares of the whole.
    let bars = page.eval(
        "[...document.querySelectorAll('#epochs tbody tr')].map(row => [...row.querySelectorAll('.bar')].map(bar =>
           [...bar.children].map(piece => [piece.getBoundingClientRect().width / bar.getBoundingClientRect().width, getComputedStyle(piece).backgroundColor])))",
    );
    let bars: Vec<Vec<Vec<(f64, String)>>> = serde_json::from_value(bars).expect("bars");
    let [written, read, accent] = ["--write", "--read", "--accent"]
        .map(|name| format!("rgb({})", color(page, name).replace(',', ", ")));
    for ((epoch, cells), bars) in epochs.iter().zip(&shown).zip(&bars) {
        let cell = |title: &str| {
            let at = titles.iter().position(|one| one == title);
            cells[at.unwrap_or_else(|| panic!("no {title} in {titles:?}"))].as_str()
        };
        assert_eq!(cell("Epoch"), number(epoch, "number").to_string());
        assert_eq!(cell("Start"), duration(seconds(epoch, "start")));
        assert_eq!(cell("Duration"), duration(length(epoch)));
        assert_eq!(cell("Files"), units::count(number(epoch, "files")));
        assert_eq!(cell("Read"), units::bytes(number(epoch, "bytes_read")));
        let fetched = units::bytes(number(epoch, "bytes_fetched"));
        assert_eq!(cell("From storage"), fetched);
        let read_time = seconds(epoch, "read_seconds");
        assert_eq!(cell("Time in reads"), duration(read_time));
        let bandwidth = seconds(epoch, "bandwidth_bytes_per_second") as u64;
        let bandwidth = format!("{}/s", units::bytes(bandwidth));
        assert_eq!(cell("Bandwidth"), bandwidth);
        assert_eq!(cell("Order"), epoch["order"].as_str().unwrap_or("–"));
        let part = match epoch["complete"] == true {
            true => "all".to_owned(),
            false => format!("{:.0} %", seconds(epoch, "share_of_data") * 100.0),
        };
        assert_eq!(cell("Of the data"), part);
        let wanted = [
            vec![(length(epoch) / longest, &accent)],
            vec![
                (bytes(epoch, "bytes_fetched") / most, &written),
                (bytes(epoch, "bytes_cached") / most, &read),
            ],
        ];
        assert_eq!(bars.len(), wanted.len(), "{bars:?}");
        for (pieces, wanted) in bars.iter().zip(wanted) {
            let wanted: Vec<_> = wanted.into_iter().filter(|(part, _)| *part > 0.0).collect();
            assert_eq!(pieces.len(), wanted.len(), "{pieces:?} {wanted:?}");
            for ((part, ink), (wanted, wanted_ink)) in pieces.iter().zip(wanted) {
                assert!((part - wanted).abs() < 0.02, "{part}, not {wanted}");
                assert_eq!(ink, wanted_ink);
            }
        }
    }
}

#[test]
fn epochs_are_those_of_the_json_report() {
    for name in ["training", "epochs"] {
        let kept = golden::kept(name);
        let file = kept.recording.with_file_name("page.html");
        page_of(&kept.recording, &file);
        let report = kept.report();
        let epochs = report["epochs"].as_array().expect("epochs");
        assert!(epochs.len() > 1, "{name}");
        let mut page = Page::open(&file);
        check_epochs(&mut page, epochs);
        let legend = page.text("#epochs .legend");
        assert_eq!(legend, "from storagefrom the page cache");
        no_faults(&mut page);
    }
}

#[test]
fn what_an_epoch_fetched_is_a_part_of_its_bar() {
    let training = training();
    let mut epochs = training.report["epochs"]
        .as_array()
        .expect("epochs")
        .clone();
    let read = number(&epochs[0], "bytes_read");
    for (epoch, [fetched, cached]) in epochs.iter_mut().zip([[read, 0], [read / 4, read / 2]]) {
        epoch["bytes_fetched"] = fetched.into();
        epoch["bytes_cached"] = cached.into();
        epoch["bytes_read"] = (fetched + cached).into();
    }
    epochs[1]["complete"] = false.into();
    epochs[1]["share_of_data"] = 0.75.into();
    with_other_data(&training.page, |data| {
        data["report"]["epochs"] = epochs.clone().into();
    });
    let mut page = Page::open(&training.page);
    check_epochs(&mut page, &epochs);
    no_faults(&mut page);
}
