package main_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJobsAndSchedulesAreListed(t *testing.T) {
	s := newSite(t)
	assert.Regexp(t, `(?m)^ID +APP +NAME +CLASS .*\n1 +a +mail +noop +EXECUTING +1 +2100-01-01 00:00:00.000 *`, s.ok("job", "list"))
	assert.Equal(t, []any{1.0, 3.0}, s.ids("job", "list", "--app", "a"))
	assert.Equal(t, []any{2.0}, s.ids("job", "list", "--state", "paused"))
	assert.Equal(t, []any{1.0}, s.ids("job", "list", "--limit", "1"))
	assert.Equal(t, []any{11.0, 12.0}, s.ids("execute", "list"))
	assert.Equal(t, []any{12.0}, s.ids("execute", "list", "--job", "2"))
	assert.Equal(t, []any{11.0}, s.ids("execute", "list", "--job", "mail", "--app", "a"))
	assert.Contains(t, s.fails(1, "execute", "list", "--job", "mail"), `the apps "a" and "b" both have a job "mail"`)
	assert.Equal(t, []any{}, s.ids("execute", "list", "--job", "3"))
	assert.Equal(t, "none\n", s.ok("execute", "list", "--job", "3"))
}

func TestAJobIsShown(t *testing.T) {
	s := newSite(t)
	s.exec(`UPDATE QRTZ_JOB SET OVERLAP = 'QUEUE', ATTEMPTS = 3, RUN_TIMEOUT = 90000, RECOVERY = 1, JOB_DESCRIPTION = ? WHERE ID = 1`, "two\nlines \x1b[2J")
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, STATE, STARTED_AT, FINISHED_AT) VALUES (5, 'a', 1, 1700000001000, 'SUCCEEDED', 1700000001020, 1700000001100)`)
	text := s.ok("job", "show", "mail", "--app", "a")
	for _, want := range []string{
		`name +mail`, `description +two lines \\x1b\[2J`, `recovery +yes`, `overlap +QUEUE, at most 10 pending`, `timeout +1m30s`,
		`attempts +3, after 10s to 1h0m0s`, `history +ALL, for 30d`, `11 +a +mail .* 0 0 3 \* \* \? +Europe/Berlin`, `5 +a +mail +SUCCEEDED +1 .* 20 ms +80 ms`,
	} {
		assert.Regexp(t, want, text)
	}
	var shown struct {
		ID        int64
		Schedules []map[string]any
		Latest    []map[string]any `json:"latest_runs"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.ok("job", "show", "1", "--json")), &shown))
	assert.Equal(t, []int{1, 1, 1}, []int{int(shown.ID), len(shown.Schedules), len(shown.Latest)})
	assert.Equal(t, "2023-11-14T22:13:21.020Z", shown.Latest[0]["started_at"])
	assert.Contains(t, s.fails(1, "job", "show", "x", "--app", "a"), `there is no job "x" in app "a"`)
}

func TestWhatAnOperatorChangedIsShown(t *testing.T) {
	s := newSite(t)
	assert.NotContains(t, s.ok("job", "list"), "ATTEMPTS")
	s.exec(`UPDATE QRTZ_EXECUTE SET NAME = 'nightly' WHERE ID = 11`)
	s.exec(`UPDATE QRTZ_JOB SET DECLARED = '{"job":{"ATTEMPTS":"4","KEEP_FOR":"0"},"schedules":{"nightly":{"CRON":"0 0 2 * * ?"},"hourly":{"CRON":""}}}' WHERE ID = 1`)
	assert.Regexp(t, `(?m)^1 +a +mail .* ATTEMPTS,KEEP_FOR +no live node`, s.ok("job", "list"))
	assert.Regexp(t, `(?m)^11 +a +mail +nightly .* FIRE_ONCE +CRON +no live node`, s.ok("execute", "list"))
	shown := s.ok("job", "show", "mail", "--app", "a")
	for _, want := range []string{`differs +ATTEMPTS is "1", declared "4"`, `differs +KEEP_FOR is "2592000000", declared "0"`, `differs +schedule "hourly" is declared, and deleted`} {
		assert.Regexp(t, want, shown)
	}
	assert.Regexp(t, `"differs": \[\s*\{\s*"column": "CRON",\s*"declared": "0 0 2 \* \* \?",\s*"stored": "0 0 3 \* \* \?"`, s.ok("execute", "list", "--json"))
}

func TestAJobIsDeleted(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, STATE) VALUES (1, 'a', 1, 'PENDING'), (2, 'a', 1, 'SUCCEEDED'), (3, 'b', 2, 'PENDING')`)
	assert.Contains(t, s.fails(2, "job", "delete", "1"), "give --yes")
	assert.Equal(t, "deleted job 1 (mail) of app a\n", s.ok("job", "delete", "1", "--yes"))
	assert.Equal(t, []any{2.0, 3.0}, s.ids("job", "list"))
	assert.Equal(t, []any{12.0}, s.ids("execute", "list"))
	for id, want := range map[int]string{1: "CANCELLED", 2: "SUCCEEDED", 3: "PENDING"} {
		assert.Equal(t, want, s.text(`SELECT STATE FROM QRTZ_RUN WHERE ID = ?`, id))
	}
}
