package qrtz

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestLinesGoToSlogAsTheyAre(t *testing.T) {
	var logged bytes.Buffer
	level := &slog.LevelVar{}
	to := slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	log := Config{Slog: slog.New(to)}.logs().own
	at := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	log.Warn().Int64("run", 1<<62+1).Time("fire", at).Dur("after", 1500*time.Millisecond).Strs("classes", []string{"a"}).Bool("retry", true).
		Err(errors.New("no paper")).Msg("run failed")
	require.Equal(t, "level=WARN msg=\"run failed\" run=4611686018427387905 fire=2030-01-01T09:00:00Z after=1500 classes=[a] retry=true error=\"no paper\"\n",
		logged.String())
	logged.Reset()
	log.Debug().Msg("hidden")
	log.Trace().Msg("hidden")
	level.Set(slog.LevelDebug)
	log.Debug().Msg("seen")
	log.Error().Msg("bad")
	log.Log().Msg("plain")
	require.Equal(t, "level=DEBUG msg=seen\nlevel=ERROR msg=bad\nlevel=INFO msg=plain\n", logged.String())
}

// Without a logger, an outage must not go unnoticed.
func TestWarningsGoToStderrByDefault(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	old := os.Stderr
	os.Stderr = write
	quiet := zerolog.Nop()
	db := sql.OpenDB(busy{})
	defer func() { require.NoError(t, db.Close()) }()
	s, err := Open(db, Config{App: "a"})
	silent, failed := Open(db, Config{App: "a", Logger: &quiet})
	os.Stderr = old
	require.NoError(t, errors.Join(err, failed))
	s.logs.own.Info().Msg("joined")
	s.logs.own.Warn().Msg("the database is away")
	s.logs.handler.Info().Msg("packed")
	silent.logs.own.Error().Msg("silent")
	silent.logs.handler.Error().Msg("silent")
	require.NoError(t, write.Close())
	said, err := io.ReadAll(read)
	require.NoError(t, err)
	require.Contains(t, string(said), "the database is away")
	require.Contains(t, string(said), "packed")
	require.NotContains(t, string(said), "joined")
	require.NotContains(t, string(said), "silent")
}

// A handler that does not log pays for no logger.
func TestLoggersAreMadeWhenAskedFor(t *testing.T) {
	sinks := Config{Slog: slog.New(slog.DiscardHandler)}.logs()
	ctx, cancel := context.WithCancelCause(t.Context())
	one := &runContext{Context: ctx, values: withoutEnd(context.Background()), run: &Run{ID: 7}, app: "a", logs: &sinks}
	inner, stop := context.WithCancel(one)
	defer stop()
	require.Nil(t, inner.Value(traceKey{}))
	require.Nil(t, one.zerolog)
	require.Nil(t, one.slog)
	require.Same(t, zerolog.Ctx(inner), zerolog.Ctx(one), "the handler's own, to which it may add fields")
	require.Same(t, Slog(inner), Slog(one))
	cancel(ErrFenced)
	require.ErrorIs(t, context.Cause(inner), ErrFenced)
}

type traceKey struct{}
