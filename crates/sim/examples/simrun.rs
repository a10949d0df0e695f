use weft_sim::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or("mixed".into());
    let first: u64 = args.next().map(|v| v.parse().unwrap()).unwrap_or(0);
    let count: u64 = args.next().map(|v| v.parse().unwrap()).unwrap_or(1);
    let mode = args.next().unwrap_or_default();
    let s = Scenario::named(&name).unwrap();
    if mode == "trace" {
        let r = trace_seed(&s, first);
        for l in &r.trace { println!("{l}"); }
        for v in &r.violations { println!("{v}"); }
        return;
    }
    let mut last = std::time::Instant::now();
    let mut p = |r: &SeedReport| {
        let t = last.elapsed(); last = std::time::Instant::now();
        if mode == "v" || !r.violations.is_empty() || t.as_millis() > 1500 {
        println!("seed {} {} tr {} commits {} sim {}s {:?} starved {} {}", r.seed, r.density, r.transitions, r.commits, r.simulated_ms/1000, t, r.starved, r.violations.first().cloned().unwrap_or_default()); }
    };
    let t = std::time::Instant::now();
    let defect = std::env::var("DEFECT").ok().map(|d| weft_core::planted::Defect::from_name(&d).unwrap());
    let r = run(Options { first_seed: first, seeds: count, shrink: false, defect, stop_at_first: defect.is_some(), progress: Some(&mut p), ..Options::new(s) });
    println!("{} seeds in {:?}, tr {} commits {} violations {} starved {}", r.seeds, t.elapsed(), r.transitions, r.commits, r.violations.len(), r.starved);
    println!("{:?}\n{:?}", r.faults, r.sometimes);
}
