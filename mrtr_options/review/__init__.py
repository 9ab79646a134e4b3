"""The review: it makes things go wrong in a call of the tool, and judges the outcome.

From a fault to a history to an anomaly
---------------------------------------
The folders follow the way of a run. `bench` plays and records it, `judge` says what is wrong in the
record, `explore` and `check` decide which runs to make, `show` prints, and `cli` has the commands.

Take `python -m mrtr_options play E --faults lost3 --client resends`: the loss of the third
response, for option E and a client that resends. Without `--client` the client of `play` stops, and
its user is charged and told of an error.

- A *fault* is a kind of fault, a round, and an attempt at that round. `lost3` is the kind "lost" at
  round 3, at the first attempt. A kind is a function around a request, in a module of
  `bench.faults`. It gets the request and the way on, as middleware does; "lost" sends it on over a
  network that loses the response. Above the function stand the fault in a sentence, when it can
  happen, and which abilities of a deployment it needs. A fault at an effect is a function around
  the effect's arrival.
- A *scenario* (`bench.scenario`) is the plan of a run: the caller, the client's policy
  (`bench.policies`), the instances, and the faults. It is data. `calling(...).under(faults)` makes
  it.
- `bench.run.run` starts fresh instances of the subject on a deployment, here in memory, and lets
  the usual client (`bench.client.driver`) make the call. Each request goes through its faults,
  then through `bench.client.sender`, which records it, and `bench.client`, which puts it on the
  wire. The client sends round 1 and gets the question about the place. It answers in round 2 and
  gets the question about the units. E writes an audit in each of these rounds. In round 3 the
  server writes an audit and the bill and sends the report. Because of the fault the client does not
  receive it. This client resends: it sends round 3 again with the state that it holds. This second
  attempt has a number of its own in the history, its *sending*. The server writes an audit and a
  bill once more.
- Everything is recorded as events: requests, responses, questions, answers, effects. The events
  make a `History` (`bench.history`), which never changes. A lost response is in the history and
  marked as lost, so that a judge can see more than the client saw (`LOST` of `bench.messages`).
  `bench.history.narrate` turns events into the rows that every view shows.
- There are three judges of a history; `play` asks the second one. `judge.contract` holds it against
  docs/CONTRACT.md: here it finds no breach, since the contract allows one bill for each delivery.
  `judge.anomalies` names what a user would call wrong: "charged twice" and "logged twice".
  `judge.guarantees` compares the run of a schedule with what the option declares about itself.
- `play` prints the rows, the outcome and the anomalies.
- `explore` makes the run for every set of faults up to a bound and keeps the smallest sets that
  show each anomaly, its counterexamples. For E, `lost3` is one of those of "charged twice". The
  other two judges look at runs without an anomaly of their own: a breach there lacks a name.
- `check` reviews a file of a stranger. For a breach of the contract (`check.breaches`) the scenario
  is shrunk: steps are left out as long as the rule stays broken. An anomaly that the contract
  allows becomes a *risk* (`check.report`), with its counterexamples and a remedy. `lost3` would be
  told as a risk: charged twice if response 3 is lost.

To read further, start with `bench.faults`, `bench.client.driver`, `bench.history`, and the essay in
`judge.contract`.
"""
