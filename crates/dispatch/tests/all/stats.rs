use crate::{ask, claim, of, open};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn api_stats_show_one_namespace_and_nothing_of_another() {
    let dispatch = open().await;
    let (shop, bank) = (of("shop"), of("bank"));
    for (caller, lane) in [(&shop, "mail"), (&bank, "money"), (&bank, "money"), (&bank, "money")] {
        ask(&dispatch, caller, "submit_execution", json!({ "kind": "send", "lane": lane }), None).await.unwrap();
    }
    let later = json!({ "kind": "send", "lane": "mail", "delay_ms": 60_000 });
    ask(&dispatch, &shop, "submit_execution", later, None).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let work = claim(&dispatch, &bank, "money").await;
    let failed = json!({ "items": [{
        "execution": work["execution"], "lease": work["lease"]["id"], "epoch": work["lease"]["epoch"],
        "category": "crash", "message": "of the bank", "retry": "never",
    }] });
    let answer = ask(&dispatch, &bank, "fail", failed, None).await.unwrap();
    assert!(answer.to_string().contains("failed"), "{answer}");
    let running = claim(&dispatch, &bank, "money").await;
    tokio::time::advance(std::time::Duration::from_secs(2)).await;

    let stats = ask(&dispatch, &shop, "get_stats", Value::Null, None).await.unwrap();
    let lanes: Vec<&str> = stats["lanes"].as_array().unwrap().iter().filter_map(|lane| lane["lane"].as_str()).collect();
    assert_eq!(lanes, ["mail"]);
    let mail = &stats["lanes"][0];
    assert_eq!((&mail["waiting"], &mail["delayed"], &mail["active"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(mail["oldest_ms"], 7_000);
    assert_eq!((&stats["errors"], &stats["slowest"], &stats["workers"]["active"]), (&json!([]), &json!([]), &json!(0)));
    assert!(!stats.to_string().contains("bank"), "{stats}");

    let stats = ask(&dispatch, &bank, "get_stats", Value::Null, None).await.unwrap();
    let money = &stats["lanes"][0];
    assert_eq!((&money["waiting"], &money["active"], &money["workers"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(stats["slowest"][0]["execution"], running["execution"]);
    assert_eq!(stats["slowest"][0]["running_ms"], 2_000);
    assert_eq!(stats["errors"][0]["execution"], work["execution"]);
    assert_eq!(stats["errors"][0]["category"], "crash");
    let minute = &stats["windows"][0];
    assert_eq!((&minute["minutes"], &minute["queue_wait"]["count"]), (&json!(1), &json!(2)));
    assert_eq!(stats["uptime_ms"], 7_000);
    let submitted = minute["submitted_per_s"].as_f64().unwrap();
    assert!((submitted - 3.0 / 7.0).abs() < 0.01, "{submitted} a second");
}

#[tokio::test(start_paused = true)]
async fn api_depths_are_kept_for_two_seconds() {
    let dispatch = open().await;
    let shop = of("shop");
    let waiting =
        async || ask(&dispatch, &shop, "get_stats", Value::Null, None).await.unwrap()["lanes"][0]["waiting"].clone();
    let submit = async || ask(&dispatch, &shop, "submit_execution", json!({ "kind": "send" }), None).await.unwrap();
    submit().await;
    assert_eq!(waiting().await, 1);
    let scans = dispatch.engine().stats().scans;
    submit().await;
    assert_eq!(waiting().await, 1);
    assert_eq!(dispatch.engine().stats().scans, scans);
    tokio::time::advance(std::time::Duration::from_secs(3)).await;
    assert_eq!(waiting().await, 2);
}
