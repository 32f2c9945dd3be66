package qrtz

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/run"
)

// A process that was frozen between a claim and its start may find that its place is another's by now.
func TestARunWhoseInstanceHasLostItsPlaceIsNotStarted(t *testing.T) {
	db, err := sql.Open("mysql", "nobody@unix(/nowhere)/nothing") // nothing here asks the database
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := Open(db, Config{App: "a"})
	require.NoError(t, err)
	started := false
	Handle(s, "tick", func(context.Context, *Run, struct{}) error {
		started = true
		return nil
	})
	one := newSession(s, &links{own: sqlx.NewDb(db, "mysql"), beat: sqlx.NewDb(db, "mysql")})
	one.carryOut(run.Run{ID: 1, Class: "tick", Instance: 7, Attempt: 1, FireTime: time.Now()}, time.Now())
	require.False(t, started)
	require.Empty(t, one.active.byID)
}
