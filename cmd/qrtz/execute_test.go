package main_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSchedulesArePausedResumedAndDeleted(t *testing.T) {
	s := newSite(t)
	state := func() string { return s.text(`SELECT STATE FROM QRTZ_EXECUTE WHERE ID = 11`) }
	assert.Equal(t, "schedule 11 of job 1 (mail) of app a is PAUSED\n", s.ok("execute", "pause", "11"))
	assert.Contains(t, s.ok("execute", "pause", "11"), "is PAUSED, as it was before")
	assert.Equal(t, "PAUSED", state())
	assert.Equal(t, "resumed 1 of 1 schedules of job 1 (mail) of app a\n", s.ok("job", "resume", "mail", "--app", "a"))
	assert.Equal(t, "EXECUTING", state())
	assert.Equal(t, "paused 1 of 1 schedules of job 1 (mail) of app a\n", s.ok("job", "pause", "1"))
	assert.Contains(t, s.ok("execute", "resume", "11"), "is EXECUTING\n")
	s.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'COMPLETE' WHERE ID = 11`)
	assert.Contains(t, s.fails(1, "execute", "resume", "11"), "is COMPLETE, which cannot become EXECUTING")
	assert.Contains(t, s.fails(1, "execute", "pause", "99"), "there is no schedule 99")
	assert.Contains(t, s.fails(2, "execute", "delete", "11"), "give --yes")
	s.exec(`INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID, EXECUTE_ID) VALUES (1, 'a', 1, 11)`)
	assert.Contains(t, s.ok("execute", "delete", "11", "--yes"), "deleted schedule 11")
	assert.Equal(t, []any{12.0}, s.ids("execute", "list"))
	assert.Equal(t, "CANCELLED: its schedule was deleted", s.text(`SELECT CONCAT(STATE, ': ', MESSAGE) FROM QRTZ_RUN WHERE ID = 1`))
}
