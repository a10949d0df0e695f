"""Keeps the fuzzer from waiting, and from stopping what it fuzzes: calls may ask the server to wait for a minute, and
nothing would ever come; a drain may name the only node there is."""

import schemathesis

LONGEST_MS = 20


@schemathesis.hook
def before_call(context, case, kwargs):
    for fields in (case.query, case.body):
        wait = fields.get("wait_ms") if isinstance(fields, dict) else None
        if isinstance(wait, (int, float)) and not isinstance(wait, bool) and LONGEST_MS < wait <= 60_000:
            fields["wait_ms"] = LONGEST_MS
    if case.path == "/v1/nodes/{node}/drain":
        case.path_parameters = {**(case.path_parameters or {}), "node": "n_00000000-0000-4000-8000-000000000000"}
