package qrtz_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

func TestTheLogNamesWhatAnOperatorHasChanged(t *testing.T) {
	c := newCluster(t)
	var log bytes.Buffer
	logger := zerolog.New(&log)
	cfg := quick("n1")
	cfg.Logger = &logger
	s := c.open(cfg)
	lines := func() (found []string) {
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "an operator has changed") {
				found = append(found, line)
			}
		}
		return found
	}
	job := qrtz.Job{Name: "report", Class: "tick", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 2 * * ?", "Europe/Berlin")}}
	require.NoError(t, s.Declare(t.Context(), job))
	require.NoError(t, s.Declare(t.Context(), job))
	require.Empty(t, lines())
	c.exec(`UPDATE QRTZ_EXECUTE SET CRON = '0 0 5 * * ?'`)
	c.exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 0`)
	require.NoError(t, s.Declare(t.Context(), job))
	require.Len(t, lines(), 1)
	for _, part := range []string{`"level":"warn"`, `"differences":2`, `KEEP_FOR is \"0\", declared \"2592000000\"`, `CRON is \"0 0 5 * * ?\", declared \"0 0 2 * * ?\"`} {
		require.Contains(t, lines()[0], part)
	}
	require.Equal(t, "0 0 5 * * ?", c.text(`SELECT CRON FROM QRTZ_EXECUTE`))
	job.KeepFor = time.Hour
	require.NoError(t, s.Declare(t.Context(), job))
	require.Equal(t, 3_600_000, c.count(`SELECT KEEP_FOR FROM QRTZ_JOB`))
	require.Equal(t, "0 0 5 * * ?", c.text(`SELECT CRON FROM QRTZ_EXECUTE`))
	job.Reset = true
	require.NoError(t, s.Declare(t.Context(), job))
	require.Equal(t, "0 0 2 * * ?", c.text(`SELECT CRON FROM QRTZ_EXECUTE`))
}

func TestSchedulesOfARunningProgram(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	report := qrtz.Job{Name: "report", Class: "tick"}
	require.NoError(t, s.Declare(t.Context(), report, qrtz.Job{Name: "old", Class: "tick", Schedules: []qrtz.Schedule{qrtz.Every(time.Hour)}}))
	n := c.start(s)
	require.NoError(t, n.Schedule(t.Context(), "report", qrtz.Every(100*time.Millisecond, qrtz.Named("own"))))
	c.ran(3, within, all)
	notDeclared, err := n.DeclareAll(t.Context(), report)
	require.NoError(t, err)
	require.Equal(t, []string{"old"}, notDeclared)
	require.NoError(t, n.Retire(t.Context(), notDeclared...))
	require.Equal(t, "EXECUTING", c.text(`SELECT STATE FROM QRTZ_EXECUTE WHERE NAME = 'own'`))
	require.Equal(t, "COMPLETE", c.text(`SELECT STATE FROM QRTZ_EXECUTE WHERE NAME = ''`))
	notDeclared, err = n.DeclareAll(t.Context(), report)
	require.NoError(t, err)
	require.Empty(t, notDeclared)
	require.NoError(t, n.Unschedule(t.Context(), "report", "own"))
	require.ErrorIs(t, n.Unschedule(t.Context(), "report", "own"), qrtz.ErrNotFound)
	require.ErrorIs(t, n.Schedule(t.Context(), "nothing", qrtz.Every(time.Hour, qrtz.Named("own"))), qrtz.ErrNotFound)
	require.ErrorContains(t, n.Schedule(t.Context(), "report", qrtz.At(time.Time{}, qrtz.Named("own"))), `schedule "own" of job "report": At: the zero time`)
	n.halt()
}

func TestARenamedJobIsFoundByItsFormerName(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "dunning"}))
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "reminder", Was: []string{"dunning"}}))
	for _, name := range []string{"reminder", "dunning"} {
		_, err := s.Enqueue(t.Context(), name, nil)
		require.NoError(t, err)
	}
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = 'reminder'`))
}
