package qrtz_test

import (
	"bytes"
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
	job := qrtz.Job{Name: "report", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 2 * * ?", "Europe/Berlin")}}
	require.NoError(t, s.Declare(t.Context(), job))
	require.NoError(t, s.Declare(t.Context(), job))
	require.Empty(t, log.String())
	c.exec(`UPDATE QRTZ_EXECUTE SET CRON = '0 0 5 * * ?'`)
	c.exec(`UPDATE QRTZ_JOB SET KEEP_FOR = 0`)
	require.NoError(t, s.Declare(t.Context(), job))
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), log.String())
	for _, part := range []string{`"level":"warn"`, `"differences":2`, `KEEP_FOR is \"0\", declared \"2592000000\"`, `CRON is \"0 0 5 * * ?\", declared \"0 0 2 * * ?\"`} {
		require.Contains(t, log.String(), part)
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
