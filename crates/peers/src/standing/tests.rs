use super::*;

const NODE: Address = Address::repeat_byte(1);

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

#[test]
fn points_are_lost_and_come_back() {
    let now = Instant::now();
    let mut standing = Standing::new(ScorePolicy::default());
    assert_eq!(standing.score(&NODE, now), FULL_SCORE);
    assert!(!standing.report(NODE, 30, true, now));
    assert!(!standing.report(NODE, 0, true, now));
    assert_eq!(standing.score(&NODE, now), 70);
    assert_eq!(standing.score(&NODE, now + seconds(60)), 80);
    assert_eq!(standing.score(&NODE, now + seconds(3600)), FULL_SCORE);
    assert!(!standing.report(NODE, 79, true, now + seconds(60)));
}

#[test]
fn a_familiar_node_comes_back_soon_and_later_each_time() {
    let mut now = Instant::now();
    let mut standing = Standing::new(ScorePolicy::default());
    for exile in [30, 60, 120, 240, 480, 600, 600] {
        assert!(standing.report(NODE, 1000, true, now));
        assert_eq!(standing.exile(&NODE, now), Some(seconds(exile)));
        now += seconds(exile);
        assert_eq!(standing.exile(&NODE, now), None);
        assert_eq!(standing.score(&NODE, now), 50, "exile is no time of good behaviour");
    }
    standing.forgive(&NODE);
    assert_eq!(standing.score(&NODE, now), FULL_SCORE);
}

#[test]
fn a_stranger_stays_away_for_longer() {
    let now = Instant::now();
    let mut standing = Standing::new(ScorePolicy::default());
    assert!(standing.report(NODE, FULL_SCORE, false, now));
    assert_eq!(standing.exile(&NODE, now), Some(seconds(3600)));
}

#[test]
fn what_is_remembered_is_bounded_and_the_worst_is_kept() {
    let now = Instant::now();
    let mut standing = Standing::new(ScorePolicy::default());
    standing.report(NODE, FULL_SCORE, false, now);
    for number in 0..10_000_u64 {
        standing.report(Address::left_padding_from(&number.to_be_bytes()), 10, false, now);
    }
    assert_eq!(standing.nodes.len(), MOST_REMEMBERED);
    assert!(standing.exile(&NODE, now).is_some());
    standing.report(Address::repeat_byte(2), 10, false, now + seconds(3600));
    assert!(standing.nodes.len() <= 2, "those that have recovered are forgotten");
}
