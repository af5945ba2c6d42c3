//! The users' socket: the lines of a client, and those of a service.
#![no_main]

use iotrace_service::socket::protocol::{self, Answer, Ask, Request, Wish};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    if let Ok(ask) = protocol::request(line) {
        let again = protocol::line(&Request {
            iotrace: protocol::VERSION,
            ask: ask.clone(),
        });
        let read: Ask = protocol::request(&again).expect("what was read is a request");
        assert_eq!(read, ask);
    }
    if let Ok(wish) = serde_json::from_slice::<Wish>(line) {
        let read: Wish = serde_json::from_slice(&protocol::line(&wish)).expect("a wish");
        assert_eq!(read, wish);
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(line) {
        assert!(protocol::line(&answer).ends_with(b"\n"));
    }
});
