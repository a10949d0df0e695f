//! The scenarios of flows on every store. Each is written once; here it is said on which stores it runs.

mod cut;
mod place;
mod shapes;
mod sizes;
mod wrongs;

use crate::kit::kinds::on_every_store;

on_every_store! {
    shapes::fl_250_a_diamond_runs_and_its_join_gets_both_inputs,
    shapes::fl_251_a_failed_branch_skips_the_join_and_the_other_runs_on,
    shapes::fl_252_the_third_of_five_wins_and_the_others_are_cancelled_and_told,
    shapes::fl_253_a_quorum_of_three_is_impossible_at_the_third_failure,
    shapes::fl_254_a_sibling_that_another_group_needs_runs_on,
    sizes::fl_255_a_race_of_many_is_cancelled_over_a_crash_after_each_commit,
    shapes::fl_256_edges_on_failure_and_on_any_end,
    sizes::fl_257_a_fan_out_that_a_crash_cut_makes_every_child_ready_once,
    shapes::fl_258_a_replayed_upstream_reopens_what_was_skipped_below_it,
    shapes::fl_259_a_downstream_that_runs_is_not_touched_by_a_replay,
    sizes::fl_260_after_the_reply_to_a_cancel_no_claim_succeeds,
    shapes::fl_261_those_that_run_may_end_their_attempt,
    sizes::fl_262_growing_races_with_the_last_completion,
    shapes::fl_263_a_member_that_runs_again_adds_the_same_children,
    wrongs::fl_264_planted_counters_are_repaired_once,
    wrongs::fl_265_each_row_of_the_safety_net_has_its_action,
}
