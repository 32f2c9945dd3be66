package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// A handler saves how far it has come in the row of its run. The next attempt gets a copy with the row itself, whatever ended the
// one before. The guard is the claim: an attempt that has lost its run cannot change what another goes by.

// MaxCheckpoint is how many bytes a checkpoint has at most, which is what the column takes.
const MaxCheckpoint = 64<<10 - 1

const (
	saveSQL  = `UPDATE QRTZ_RUN R FORCE INDEX (PRIMARY) SET R.CHECKPOINT = ? WHERE ` + claimedSQL
	savedSQL = `SELECT COUNT(*) FROM QRTZ_RUN R FORCE INDEX (PRIMARY) WHERE ` + claimedSQL
	loadSQL  = `SELECT R.CHECKPOINT FROM QRTZ_RUN R FORCE INDEX (PRIMARY) WHERE ` + claimedSQL
)

// table is schema.Tables, or schema.On.
type table interface {
	getter
	schema.Execer
}

// Save writes the checkpoint of a run, nil for none. If the run is no longer as it was claimed, the error is node.ErrFenced.
func (s *Store) Save(ctx context.Context, r Run, checkpoint []byte) error {
	return save(ctx, s.db, savedSQL, r, checkpoint)
}

// SaveIn is Save in tx, a transaction of the handler's at whatever isolation.
func (s *Store) SaveIn(ctx context.Context, tx *sql.Tx, who string, r Run, checkpoint []byte) error {
	on, err := s.within(ctx, tx)
	if err != nil {
		return err
	}
	if err = save(ctx, on, savedSQL+` FOR UPDATE`, r, checkpoint); errors.Is(err, node.ErrFenced) || schema.NoSuchTable(err) {
		return s.refusal(ctx, on, who, err)
	}
	return err
}

func save(ctx context.Context, t table, savedSQL string, r Run, checkpoint []byte) error {
	value := sql.NullString{String: string(checkpoint), Valid: checkpoint != nil}
	if changed, err := changedOne(t.Exec(ctx, saveSQL, value, r.ID, r.Instance, r.Fence)); err != nil || changed {
		return err
	}
	var held int // what is saved a second time changes nothing
	if err := t.Get(ctx, &held, savedSQL, r.ID, r.Instance, r.Fence); err != nil {
		return err
	}
	if held == 0 {
		return node.ErrFenced
	}
	return nil
}

// Load reads the checkpoint of a run, nil if it has none. If the run is no longer as it was claimed, the error is node.ErrFenced.
func (s *Store) Load(ctx context.Context, r Run) (checkpoint []byte, err error) {
	if err = s.db.Get(ctx, &checkpoint, loadSQL, r.ID, r.Instance, r.Fence); errors.Is(err, sql.ErrNoRows) {
		return nil, node.ErrFenced
	}
	return checkpoint, err
}

// within returns the tables by way of a handler's transaction, into whose statements texts can go.
func (s *Store) within(ctx context.Context, tx *sql.Tx) (schema.On, error) {
	x := &sqlx.Tx{Tx: tx, Mapper: s.db.DB.Mapper}
	_, err := schema.SafeNow(ctx, x)
	return s.db.On(x), err
}

// refusal is why a handler's transaction found no run as it was claimed: err, or that it is on another database.
func (s *Store) refusal(ctx context.Context, on schema.On, who string, err error) error {
	if schema.NoSuchTable(err) {
		return fmt.Errorf("%w: %w", errElsewhere, err)
	}
	var known int
	if err := on.Get(ctx, &known, knowsNodeSQL, s.app, who); err != nil {
		return err
	}
	if known == 0 {
		return fmt.Errorf("%w: there it has no node %q of app %q", errElsewhere, who, s.app)
	}
	return err
}

// weight is how many bytes of data and of a checkpoint are in a run's own row.
func (r Run) weight() int64 { return r.ownData + r.Saved }
