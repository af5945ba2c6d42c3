//! Drives headless Chromium by its DevTools protocol, over a pair of pipes: no port, no driver, no other crate.
//!
//! Messages are JSON, each ended by NUL: <https://chromedevtools.github.io/devtools-protocol/>.

use std::{
    io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _, pipe},
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use crate::common;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser of its own, gone at the end.
pub struct Browser {
    child: Child,
    commands: PipeWriter,
    messages: Receiver<Value>,
    events: Vec<Value>,
    last: u64,
    _profile: TempDir,
}

/// An open page.
pub struct Page {
    session: String,
    browser: Browser,
}

/// What a part of a screenshot shows.
pub struct Picture {
    /// Colours as `r,g,b`, with the number of their pixels, most first.
    pub colors: Vec<(String, u64)>,
    pub pixels: u64,
}

impl Browser {
    /// Starts it. A missing one fails the test.
    fn start() -> Self {
        let program = common::tool("chromium-headless-shell");
        let profile = tempfile::tempdir().expect("a temporary directory");
        let (reads, commands) = pipe().expect("a pipe");
        let (answers, writes) = pipe().expect("a pipe");
        let mut command = Command::new(program);
        command
            .args([
                // Root has no sandbox; the pages are our own.
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let ends = [reads.as_raw_fd(), writes.as_raw_fd()];
        // SAFETY: between fork and exec it only duplicates descriptors, which is allowed there.
        unsafe {
            command.pre_exec(move || {
                // Out of the way first: the numbers that Chromium wants may be those of the other end.
                let aside = ends.map(|end| libc::fcntl(end, libc::F_DUPFD, 10));
                for (end, number) in aside.into_iter().zip([3, 4]) {
                    if libc::dup2(end, number) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("chromium-headless-shell starts");
        Self {
            child,
            commands,
            messages: follow(answers),
            events: Vec::new(),
            last: 0,
            _profile: profile,
        }
    }

    /// Sends a command and waits for its answer; events that come first are kept.
    #[track_caller]
    fn call(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut text = message.to_string();
        text.push('\0');
        self.commands
            .write_all(text.as_bytes())
            .expect("Chromium takes commands");
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
            let message = match self.messages.recv_timeout(left) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => panic!("Chromium does not answer {method}"),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("Chromium has ended: {:?}", self.child.try_wait())
                }
            };
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }
}

/// Takes messages from the pipe as they come, so that Chromium never waits for us.
fn follow(answers: PipeReader) -> Receiver<Value> {
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        let mut answers = BufReader::new(answers);
        loop {
            let mut message = Vec::new();
            match answers.read_until(0, &mut message) {
                Ok(length) if length > 0 => message.truncate(length - 1),
                _ => return,
            }
            let message = serde_json::from_slice(&message).expect("Chromium speaks JSON");
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    messages
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Page {
    /// Opens a file in a browser of its own and waits until the page says that it is ready.
    #[track_caller]
    pub fn open(file: &Path) -> Self {
        let mut page = Self::blank();
        page.visit(file);
        page
    }

    /// An empty page.
    pub fn blank() -> Self {
        let mut browser = Browser::start();
        let target = browser.call(None, "Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call(None, "Target.attachToTarget", attach);
        let session = attached["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned();
        let mut page = Self { session, browser };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.size(1280, 900);
        page
    }

    /// Goes to a file, and returns how long it took until the page had drawn itself and answered.
    #[track_caller]
    pub fn visit(&mut self, file: &Path) -> Duration {
        let started = Instant::now();
        let url = format!("file://{}", file.display());
        let loaded = self.call("Page.navigate", json!({"url": url}));
        assert!(loaded["errorText"].is_null(), "{url}: {loaded}");
        while self
            .eval("document.readyState === 'complete' && !!document.documentElement.dataset.ready")
            != true
        {
            assert!(
                started.elapsed() < PATIENCE,
                "not ready: {:?}",
                self.faults()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        self.settle();
        started.elapsed()
    }

    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.browser.call(Some(&self.session), method, parameters)
    }

    /// Value of a JavaScript expression.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let ask = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", ask);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    /// Text of the first element that `selector` finds.
    #[track_caller]
    pub fn text(&mut self, selector: &str) -> String {
        let found = self.eval(&format!(
            "document.querySelector({selector:?})?.textContent"
        ));
        let text = found.as_str();
        text.unwrap_or_else(|| panic!("nothing is {selector}"))
            .to_owned()
    }

    /// Waits until what was begun is drawn: timers of the page, then two frames.
    pub fn settle(&mut self) {
        self.eval("new Promise(r => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(r)), 100))");
    }

    /// Presses and releases the mouse over the middle of an element, as a person would.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
        self.settle();
    }

    /// Moves the mouse over the middle of an element.
    #[track_caller]
    pub fn hover(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        self.call(
            "Input.dispatchMouseEvent",
            json!({"type": "mouseMoved", "x": x, "y": y}),
        );
        self.settle();
    }

    /// Middle of an element, which is scrolled into view and must not be covered by another.
    #[track_caller]
    fn middle(&mut self, selector: &str) -> (f64, f64) {
        let found = self.eval(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center'}});
               const b = e.getBoundingClientRect(), x = b.x + b.width / 2, y = b.y + b.height / 2;
               const top = document.elementFromPoint(x, y);
               return {{x, y, hit: e.contains(top) || (top?.contains(e) ?? false)}}; }})()"
        ));
        assert_eq!(found["hit"], true, "{selector} is covered: {found}");
        (
            found["x"].as_f64().expect("x"),
            found["y"].as_f64().expect("y"),
        )
    }

    /// Types text where the focus is.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
        self.settle();
    }

    /// Presses a key by its name: `Enter`, `ArrowRight`, `Tab`.
    pub fn key(&mut self, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": virtual_key(key)});
            self.call("Input.dispatchKeyEvent", event);
        }
        self.settle();
    }

    /// Sets the window's size.
    pub fn size(&mut self, width: u32, height: u32) {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Sets the medium (`screen`, `print`) and the user's colour scheme (`light`, `dark`).
    pub fn medium(&mut self, medium: &str, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call(
            "Emulation.setEmulatedMedia",
            json!({"media": medium, "features": features}),
        );
        self.settle();
    }

    /// Takes a screenshot of an element and counts its colours.
    #[track_caller]
    pub fn picture(&mut self, selector: &str) -> Picture {
        let clip = self.eval(&format!(
            "(() => {{ const b = document.querySelector({selector:?}).getBoundingClientRect();
               return {{x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height, scale: 1}}; }})()"
        ));
        let shot = json!({"format": "png", "clip": clip, "captureBeyondViewport": true});
        let shot = self.call("Page.captureScreenshot", shot);
        let counted = Self::blank().eval(&format!(
            "(async () => {{ const image = await createImageBitmap(await (await fetch('data:image/png;base64,' + {data})).blob());
               const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext('2d');
               context.drawImage(image, 0, 0);
               const bytes = context.getImageData(0, 0, image.width, image.height).data, seen = new Map();
               for (let i = 0; i < bytes.length; i += 4) {{
                 const color = bytes[i] + ',' + bytes[i + 1] + ',' + bytes[i + 2];
                 seen.set(color, (seen.get(color) ?? 0) + 1);
               }}
               return [...seen].sort((a, b) => b[1] - a[1]); }})()",
            data = shot["data"]
        ));
        let colors: Vec<(String, u64)> = serde_json::from_value(counted).expect("colours");
        let pixels = colors.iter().map(|(_, count)| count).sum();
        Picture { colors, pixels }
    }

    /// Everything that must not happen: errors, refusals of the page's policy, dialogs, and loads of anything else.
    pub fn faults(&mut self) -> Vec<String> {
        let of = |event: &Value| {
            let parameters = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" | "Log.entryAdded" | "Page.javascriptDialogOpening" => {}
                "Runtime.consoleAPICalled" => {}
                "Network.requestWillBeSent" if parameters["type"] != "Document" => {}
                _ => return None,
            }
            Some(event.to_string())
        };
        self.eval("0"); // what was said before this is here now
        self.browser.events.iter().filter_map(of).collect()
    }
}

impl Picture {
    /// Pixels of a colour.
    pub fn count(&self, color: &str) -> u64 {
        let found = self.colors.iter().find(|(seen, _)| seen == color);
        found.map_or(0, |(_, count)| *count)
    }
}

/// `VK_*` numbers, without which Chromium takes no key for what it does.
fn virtual_key(key: &str) -> u32 {
    match key {
        "Tab" => 9,
        "Enter" => 13,
        "Escape" => 27,
        "ArrowLeft" => 37,
        "ArrowUp" => 38,
        "ArrowRight" => 39,
        "ArrowDown" => 40,
        "End" => 35,
        _ => panic!("no number for {key}"),
    }
}
