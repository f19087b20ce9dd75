-- Views over the log, for anything that speaks SQL. A new log holds them; readers bring
-- their own as TEMP views, so that older logs have today's. They only derive: dropping or
-- altering them changes nothing that was logged. No ``->>``: SQLite has it since 3.38 only,
-- and a log has to be made where STRICT tables can be, since 3.37.

-- Every run's events in order, with what a fork shares with its parent.
CREATE VIEW history AS
WITH RECURSIVE lineage (run_id, source_run_id, upto) AS (
  SELECT run_id, run_id, 9223372036854775807 FROM runs
  UNION ALL
  SELECT l.run_id, r.parent_run_id, min(l.upto, r.parent_seq)
  FROM lineage AS l JOIN runs AS r ON r.run_id = l.source_run_id
  WHERE r.parent_run_id IS NOT NULL
)
SELECT l.run_id, e.run_seq, e.seq, e.epoch, e.kind, e.type, e.ts_us, e.body
FROM lineage AS l JOIN events AS e ON e.run_id = l.source_run_id AND e.run_seq <= l.upto;

-- What the reference takes, eager and compiled.
CREATE VIEW baselines AS
SELECT run_id, run_seq, coalesce(json_extract(body, '$.baseline'), 'eager') AS baseline,
  json_extract(body, '$.runtime_ms') AS runtime_ms, json_extract(body, '$.spread') AS spread,
  coalesce(json_extract(body, '$.cached'), 0) AS cached,
  coalesce(json_extract(body, '$.measured_at'), '') AS measured_at,
  coalesce((SELECT group_concat(value, ',') FROM json_each(body, '$.labels')), '') AS labels
FROM history WHERE type = 'BaselineMeasured';

-- One row an evaluated candidate. Columns that only correct ones have are null for others.
-- ``registers`` and ``spill_bytes`` are of the kernel that takes most; ``resources`` is JSON,
-- an object a kernel, as the assembler reported it. ``reused`` is, in a fork, its parent's
-- event that the verdict was taken from; ``same_as`` the earlier node with the same source;
-- ``cached`` verdicts had been kept by an earlier run. ``labels``, with commas between, are what
-- a reader must know beside a speedup; of verdicts from before ``degenerate-task`` was one, by notes.
-- ``memory_ratio`` is of peak memory, candidate to reference, what is below 4 MB taken for that;
-- null where both are below.
CREATE VIEW evaluations AS
SELECT run_id, json_extract(body, '$.attempt') AS node, run_seq, ts_us,
  json_extract(body, '$.outcome.type') AS outcome,
  coalesce(json_extract(body, '$.outcome.reason'), '') AS reason,
  json_extract(body, '$.outcome.runtime_ms') AS runtime_ms,
  json_extract(body, '$.outcome.speedup') AS speedup,
  json_extract(body, '$.outcome.ratio') AS ratio,
  json_extract(body, '$.outcome.ratio_low') AS ratio_low,
  json_extract(body, '$.outcome.ratio_high') AS ratio_high,
  json_extract(body, '$.outcome.pairs') AS pairs,
  json_extract(body, '$.outcome.candidate_ms') AS candidate_ms,
  json_extract(body, '$.outcome.baseline_ms') AS baseline_ms,
  json_extract(body, '$.outcome.bounded_speedup') AS bounded_speedup,
  json_extract(body, '$.outcome.eager_speedup') AS eager_speedup,
  json_extract(body, '$.outcome.eager_low') AS eager_low,
  json_extract(body, '$.outcome.eager_high') AS eager_high,
  json_extract(body, '$.outcome.eager_ms') AS eager_ms,
  json_extract(body, '$.outcome.eager_baseline_ms') AS eager_baseline_ms,
  json_extract(body, '$.outcome.first_call_ms') AS first_call_ms,
  json_extract(body, '$.outcome.peak_bytes') AS peak_bytes,
  json_extract(body, '$.outcome.reference_peak_bytes') AS reference_peak_bytes,
  CASE WHEN max(json_extract(body, '$.outcome.peak_bytes'),
      json_extract(body, '$.outcome.reference_peak_bytes')) >= 4194304
    THEN max(json_extract(body, '$.outcome.peak_bytes'), 4194304) * 1.0
      / max(json_extract(body, '$.outcome.reference_peak_bytes'), 4194304) END AS memory_ratio,
  CASE WHEN json_extract(body, '$.outcome.type') = 'correct' AND EXISTS (
      SELECT 1 FROM json_each(body, '$.notes') WHERE value LIKE 'degenerate task: %')
    THEN rtrim('degenerate-task,' || coalesce(
      (SELECT group_concat(value, ',') FROM json_each(body, '$.outcome.labels')), ''), ',')
    ELSE coalesce((SELECT group_concat(value, ',') FROM json_each(body, '$.outcome.labels')), '')
    END AS labels,
  coalesce(json_extract(body, '$.outcome.sets'), '[]') AS sets,
  json_extract(body, '$.outcome.max_abs_error') AS max_abs_error,
  json_extract(body, '$.protocol') AS protocol, json_extract(body, '$.device') AS device,
  json_extract(body, '$.timings_s.guard') AS guard_s,
  json_extract(body, '$.timings_s.compile') AS compile_s,
  json_extract(body, '$.queue_s') AS queue_s, json_extract(body, '$.timings_s.lease') AS lease_s,
  json_extract(body, '$.timings_s.check') AS check_s,
  json_extract(body, '$.timings_s.bench') AS bench_s,
  json_extract(body, '$.compile_log_sha256') AS compile_log_sha256,
  json_extract(body, '$.run_log_sha256') AS run_log_sha256,
  (SELECT max(json_extract(value, '$.registers')) FROM json_each(body, '$.resources'))
    AS registers,
  (SELECT max(json_extract(value, '$.spill_store_bytes')
    + json_extract(value, '$.spill_load_bytes')) FROM json_each(body, '$.resources'))
    AS spill_bytes,
  coalesce(json_extract(body, '$.resources'), '[]') AS resources,
  json_extract(body, '$.reused') AS reused, json_extract(body, '$.same_as') AS same_as,
  coalesce(json_extract(body, '$.cached'), 0) AS cached
FROM history WHERE type = 'EvaluationFinished';

-- One row a request to a model: ``state`` is replied, failed or unanswered; ``parsed`` says
-- whether a reply was usable; ``reused`` is, in a fork, its parent's event that the reply was
-- taken from. Money is of the configured model's price as it was logged by the time of the
-- answer, null without one: what a fork knows of prices goes for its own calls.
CREATE VIEW calls AS
WITH
asked AS MATERIALIZED (
  SELECT run_id, run_seq, epoch, ts_us, body, json_extract(body, '$.call') AS call,
  json_extract(body, '$.try') AS try
  FROM history WHERE type = 'AgentCalled'),
answered AS MATERIALIZED (
  SELECT run_id, run_seq, type, ts_us, body, json_extract(body, '$.call') AS call,
  json_extract(body, '$.try') AS try
  FROM history WHERE type IN ('AgentReplied', 'AgentFailed')),
judged AS MATERIALIZED (
  SELECT run_id, type, body, json_extract(body, '$.call') AS call
  FROM history WHERE type IN ('ReplyParsed', 'ReplyRejected')),
prices AS MATERIALIZED (
  SELECT h.run_id, h.run_seq, p.key AS model, p.value AS price
  FROM history AS h, json_each(h.body, '$.prices') AS p
  WHERE h.type IN ('RunStarted', 'RunForked'))
SELECT a.run_id, a.call, a.try, json_extract(a.body, '$.attempt') AS node, a.run_seq, a.epoch,
  a.ts_us,
  json_extract(a.body, '$.role') AS role, json_extract(a.body, '$.ask') AS ask,
  json_extract(a.body, '$.model') AS model,
  json_extract(a.body, '$.template') AS template,
  CASE r.type WHEN 'AgentReplied' THEN 'replied' WHEN 'AgentFailed' THEN 'failed'
    ELSE 'unanswered' END AS state,
  json_extract(r.body, '$.error') AS error, json_extract(r.body, '$.message') AS message,
  json_extract(r.body, '$.stop_reason') AS stop_reason,
  json_extract(r.body, '$.served_by') AS served_by,
  coalesce(json_extract(r.body, '$.canned'), 0) AS canned,
  json_extract(r.body, '$.reused') AS reused,
  json_extract(r.body, '$.latency_ms') AS latency_ms,
  json_extract(r.body, '$.usage.input_tokens') AS input_tokens,
  json_extract(r.body, '$.usage.output_tokens') AS output_tokens,
  json_extract(r.body, '$.usage.cache_read_tokens') AS cache_read_tokens,
  json_extract(r.body, '$.usage.cache_write_tokens') AS cache_write_tokens,
  CASE WHEN json_extract(r.body, '$.reused') IS NOT NULL THEN 0
  WHEN r.type IN ('AgentReplied', 'AgentFailed') THEN (
    json_extract(r.body, '$.usage.input_tokens')
      * json_extract(p.price, '$.input_usd_micros_per_mtok')
    + json_extract(r.body, '$.usage.output_tokens')
      * json_extract(p.price, '$.output_usd_micros_per_mtok')
    + json_extract(r.body, '$.usage.cache_read_tokens')
      * json_extract(p.price, '$.cache_read_usd_micros_per_mtok')
    + json_extract(r.body, '$.usage.cache_write_tokens')
      * json_extract(p.price, '$.cache_write_usd_micros_per_mtok')
    + 999999) / 1000000 END AS usd_micros,
  CASE WHEN r.type = 'AgentReplied' AND j.type IS NOT NULL
    THEN j.type = 'ReplyParsed' END AS parsed,
  CASE WHEN r.type = 'AgentReplied' THEN json_extract(j.body, '$.reason') END AS rejection,
  json_extract(r.body, '$.reply_sha256') AS reply_sha256
FROM asked AS a
LEFT JOIN answered AS r ON r.run_id = a.run_id AND r.call = a.call AND r.try = a.try
LEFT JOIN judged AS j ON j.run_id = a.run_id AND j.call = a.call
LEFT JOIN prices AS p ON p.run_id = a.run_id AND p.model = json_extract(a.body, '$.model')
  AND p.run_seq < r.run_seq;

-- One row a node: the root (0) and every attempt.
CREATE VIEW nodes AS
WITH
root AS MATERIALIZED (
  SELECT run_id, runtime_ms, labels FROM baselines WHERE baseline = 'eager'),
written AS MATERIALIZED (
  SELECT run_id, json_extract(body, '$.attempt') AS node,
  json_extract(body, '$.source_sha256') AS source_sha256,
    json_extract(body, '$.source_key') AS source_key, max(run_seq) AS run_seq
  FROM history WHERE type = 'ReplyParsed' AND json_extract(body, '$.source_sha256') IS NOT NULL
  GROUP BY run_id, node
  UNION ALL -- The user's own kernel is the first attempt, and no reply.
  SELECT run_id, 1, json_extract(body, '$.given.sha256'), json_extract(body, '$.given.key'), run_seq
  FROM history WHERE type = 'RunStarted' AND json_extract(body, '$.given') IS NOT NULL),
ended AS MATERIALIZED (
  SELECT run_id, json_extract(body, '$.attempt') AS node, type, ts_us, body
  FROM history WHERE type IN ('EvaluationFinished', 'AttemptAbandoned'))
SELECT s.run_id, 0 AS node, NULL AS parent, NULL AS rule, 0 AS repair,
  CASE WHEN b.run_id IS NULL THEN 'expanding' ELSE 'evaluated' END AS status,
  NULL AS outcome, '' AS reason, b.runtime_ms,
  CASE WHEN b.runtime_ms IS NOT NULL THEN 1.0 END AS speedup, NULL AS eager_speedup,
  coalesce(b.labels, '') AS labels,
  json_extract(s.body, '$.task_sha256') AS source_sha256, NULL AS source_key,
  s.ts_us AS selected_us,
  NULL AS ended_us
FROM history AS s LEFT JOIN root AS b ON b.run_id = s.run_id WHERE s.type = 'RunStarted'
UNION ALL
SELECT s.run_id, json_extract(s.body, '$.attempt'), json_extract(s.body, '$.node'),
  json_extract(s.body, '$.rule'), json_extract(s.body, '$.repair'),
  CASE e.type WHEN 'EvaluationFinished' THEN 'evaluated' WHEN 'AttemptAbandoned' THEN 'abandoned'
    ELSE 'expanding' END,
  json_extract(e.body, '$.outcome.type'),
  coalesce(json_extract(e.body, '$.outcome.reason'), json_extract(e.body, '$.reason'), ''),
  json_extract(e.body, '$.outcome.runtime_ms'),
  b.runtime_ms / json_extract(e.body, '$.outcome.runtime_ms'),
  json_extract(e.body, '$.outcome.eager_speedup'),
  CASE WHEN json_extract(e.body, '$.outcome.type') = 'correct' AND EXISTS (
      SELECT 1 FROM json_each(e.body, '$.notes') WHERE value LIKE 'degenerate task: %')
    THEN rtrim('degenerate-task,' || coalesce(
      (SELECT group_concat(value, ',') FROM json_each(e.body, '$.outcome.labels')), ''), ',')
    ELSE coalesce((SELECT group_concat(value, ',') FROM json_each(e.body, '$.outcome.labels')), '')
    END,
  w.source_sha256, w.source_key, s.ts_us, e.ts_us
FROM history AS s
LEFT JOIN ended AS e ON e.run_id = s.run_id AND e.node = json_extract(s.body, '$.attempt')
LEFT JOIN written AS w ON w.run_id = s.run_id AND w.node = json_extract(s.body, '$.attempt')
LEFT JOIN root AS b ON b.run_id = s.run_id
WHERE s.type = 'NodeSelected';

-- What each role has cost. Unpriced calls count nothing in money; canned ones are free. Failed
-- tries are in the sums where the server said what they took.
CREATE VIEW costs_by_role AS
SELECT run_id, role, sum(state = 'replied') AS calls, count(reused) AS reused,
  sum(input_tokens + cache_read_tokens + cache_write_tokens) AS input_tokens,
  sum(output_tokens) AS output_tokens, coalesce(sum(usd_micros), 0) AS usd_micros,
  sum(usd_micros IS NULL AND NOT canned) AS unpriced_calls,
  sum(input_tokens IS NULL AND reused IS NULL) AS uncounted_calls,
  (SELECT coalesce(sum(json_extract(h.body, '$.kept_chars')), 0) FROM history h
   WHERE h.run_id = c.run_id AND h.type = 'ReplyParsed'
     AND json_extract(h.body, '$.role') = c.role) AS kept_chars
FROM calls c WHERE state = 'replied' OR input_tokens IS NOT NULL GROUP BY run_id, role;

-- A row for each new best kernel: how many attempts had ended, what had been spent on
-- calls, and how long the run had existed. New by what the run goes by, ``search.score``, as it
-- is set by now.
CREATE VIEW best_over_time AS
WITH
configured AS MATERIALIZED (
  SELECT run_id, json_extract(body, '$.config.search.score') AS score, max(run_seq)
  FROM history WHERE type IN ('RunStarted', 'RunForked') GROUP BY run_id),
marks AS (
  SELECT e.run_id, run_seq, ts_us, node, runtime_ms,
    CASE WHEN c.score = 'eager' AND eager_speedup IS NOT NULL
      THEN runtime_ms * speedup / eager_speedup ELSE runtime_ms END AS score_ms,
    1 AS ended, 0 AS usd_micros
  FROM evaluations AS e LEFT JOIN configured AS c ON c.run_id = e.run_id
  UNION ALL
  SELECT run_id, run_seq, ts_us, NULL, NULL, NULL, 1, 0
  FROM history WHERE type = 'AttemptAbandoned'
  UNION ALL
  SELECT c.run_id, h.run_seq, h.ts_us, NULL, NULL, NULL, 0, c.usd_micros
  FROM history AS h JOIN calls AS c ON c.run_id = h.run_id
    AND c.call = json_extract(h.body, '$.call') AND c.try = json_extract(h.body, '$.try')
  WHERE h.type IN ('AgentReplied', 'AgentFailed')),
sums AS (
  SELECT run_id, run_seq, ts_us, node, runtime_ms, score_ms,
    sum(ended) OVER earlier AS attempts, coalesce(sum(usd_micros) OVER earlier, 0) AS usd_micros,
    min(score_ms) OVER (earlier ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
      AS before_ms
  FROM marks WINDOW earlier AS (PARTITION BY run_id ORDER BY run_seq))
SELECT s.run_id, s.run_seq, s.node, s.attempts, s.usd_micros,
  (s.ts_us - (SELECT min(ts_us) FROM history AS h WHERE h.run_id = s.run_id)) / 1e6 AS since_start_s,
  s.runtime_ms, n.speedup, n.eager_speedup
FROM sums AS s JOIN nodes AS n ON n.run_id = s.run_id AND n.node = s.node
WHERE s.score_ms < coalesce(s.before_ms, 9e999);

-- Requests without an answer. A call whose prompt is not in the log was never sent, so nobody
-- can have answered it (``RunResumed.unsent`` names it too). Where ``asker_gone``, a later process has taken the run over
-- and nobody will answer; ``asked_again`` says that a later try of the same was made.
CREATE VIEW in_doubt AS
WITH
asked AS MATERIALIZED (
  SELECT run_id, run_seq, epoch, ts_us, coalesce(json_extract(body, '$.attempt'), 0) AS node,
    coalesce(json_extract(body, '$.baseline'), 'eager') AS baseline,
    json_extract(body, '$.try') AS try
  FROM history WHERE type IN ('EvaluationRequested', 'BaselineRequested')),
sent AS MATERIALIZED (
  SELECT run_id, json_extract(body, '$.call'), json_extract(body, '$.try')
  FROM history WHERE type = 'PromptRendered'),
-- A verdict answers every try (null), a fault its own.
answered AS MATERIALIZED (
  SELECT run_id, coalesce(json_extract(body, '$.attempt'), 0) AS node,
    coalesce(json_extract(body, '$.baseline'), 'eager') AS baseline,
    json_extract(body, '$.try') AS try
  FROM history
  WHERE type IN ('EvaluationFinished', 'BaselineMeasured', 'EvaluationFaulted', 'TaskRejected')),
open AS (
  SELECT run_id, run_seq, epoch, ts_us, 'call' AS request, node, role, call, try,
    max(try) OVER (PARTITION BY run_id, call) > try AS asked_again,
    state = 'unanswered' AND (run_id, call, try) IN sent AS open
  FROM calls
  UNION ALL
  SELECT q.run_id, q.run_seq, q.epoch, q.ts_us, iif(q.node, 'evaluation', 'baseline'), q.node,
    NULL, NULL, q.try,
    max(q.try) OVER (PARTITION BY q.run_id, q.node, q.baseline) > q.try, a.run_id IS NULL
  FROM asked AS q LEFT JOIN answered AS a ON a.run_id = q.run_id AND a.node = q.node
    AND a.baseline = q.baseline AND coalesce(a.try, q.try) = q.try)
SELECT o.run_id, o.run_seq, o.epoch, o.ts_us, o.request, o.node, o.role, o.call, o.try,
  o.epoch < n.epoch AS asker_gone, o.asked_again
FROM open AS o
JOIN (SELECT run_id, max(epoch) AS epoch FROM history GROUP BY run_id) AS n USING (run_id)
WHERE o.open;
