//! A machine with the store and the link that were added: a hybrid, and the same by the new kinds.

use tierscope_system::machine::Machine;
use tierscope_system::run::RunOptions;
use tierscope_system::spec::{load, load_text};
use tierscope_workload::generator::find;

const MACHINE: &str = r#"
base = "hybrid/quick"

[my_store]
capacity = "4GiB"
page = "4KiB"
latency = "1us"
queue_depth = 64

[my_link]
bandwidth = "16GB/s"
payload = "4KiB"
packet_overhead = "7B"
latency = "10ns"
"#;

#[test]
fn the_parts_that_were_added_make_a_machine() {
    let added = load_text("added.toml", MACHINE, &[]).unwrap_or_else(|why| panic!("{why}")).spec;
    assert!(added.store.is_none() && added.link.is_none(), "they take the place of the base's");
    let hybrid = load("hybrid/quick", &[]).unwrap_or_else(|why| panic!("{why}")).spec;
    let time_ps = |spec, workload: &str| {
        let sets = [("table".to_string(), "8MiB".into()), ("updates".to_string(), 500.into())];
        let (stream, _) = find(workload).unwrap().make(&sets, 1).unwrap();
        let mut machine = Machine::new(spec, stream, &RunOptions::default()).unwrap();
        assert_eq!(machine.run(|_| false), Ok(true));
        assert_eq!(machine.accesses(), 1000);
        machine.now_ps()
    };
    let (fast_ps, slow_ps) = (time_ps(&added, "my_workload"), time_ps(&hybrid, "my_workload"));
    assert!(fast_ps < slow_ps / 2, "1 us against 25 us: {fast_ps} ps, {slow_ps} ps");
}
