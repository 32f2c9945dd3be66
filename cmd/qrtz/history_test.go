package main_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestHistoryIsCleaned(t *testing.T) {
	s := newSite(t)
	const days = 24 * 60 * 60 * 1000
	now := time.Now().UnixMilli()
	for i, c := range []struct {
		app, state string
		finished   any
	}{
		{"a", "SUCCEEDED", now - 40*days},
		{"a", "FAILED", now - 40*days},
		{"b", "SUCCEEDED", now - 40*days},
		{"a", "SUCCEEDED", now - 20*days},
		{"a", "PENDING", nil},
		{"a", "RUNNING", nil},
		{"a", "SKIPPED", nil},
	} {
		s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, FIRE_TIME, STATE, FINISHED_AT) VALUES (?, ?, 1, ?, ?, ?)`,
			1000*i+1, c.app, now-50*days, c.state, c.finished)
	}
	clean := func(args ...string) string {
		return s.ok(append([]string{"history", "clean", "--older-than"}, args...)...)
	}
	assert.Equal(t, "would delete 4 runs (FAILED 1, SKIPPED 1, SUCCEEDED 2)\n", clean("30d", "--dry-run"))
	assert.Equal(t, "would delete no runs\n", clean("60d", "--dry-run"))
	assert.Equal(t, "deleted 1 runs (SUCCEEDED 1)\n", clean("30d", "--app", "a", "--state", "succeeded", "--yes"))
	assert.Equal(t, "deleted 3 runs (FAILED 1, SKIPPED 1, SUCCEEDED 1)\n", clean("4w2d", "--yes"))
	assert.Equal(t, []any{5001.0, 4001.0, 3001.0}, s.ids("run", "list"))
	assert.Equal(t, "deleted 1 runs (SUCCEEDED 1)\n", clean("0s", "--yes"))
}

// TestHistoryIsCleanedInPages has more runs than one page, of which every third goes.
func TestHistoryIsCleanedInPages(t *testing.T) {
	s := newSite(t)
	s.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, STATE, FINISHED_AT)
		SELECT 'a', 1, 1700000000000 + A.N + 50 * B.N, ELT(1 + MOD(A.N + 50 * B.N, 3), 'SUCCEEDED', 'FAILED', 'PENDING'), 1
		  FROM (SELECT ROW_NUMBER() OVER () - 1 AS N FROM information_schema.COLUMNS LIMIT 50) A
		  JOIN (SELECT ROW_NUMBER() OVER () - 1 AS N FROM information_schema.COLUMNS LIMIT 40) B`)
	assert.Equal(t, "deleted 667 runs (SUCCEEDED 667)\n", s.ok("history", "clean", "--older-than", "1d", "--state", "SUCCEEDED", "--yes"))
	assert.Equal(t, "1333", s.text(`SELECT COUNT(*) FROM QRTZ_RUN`))
}
