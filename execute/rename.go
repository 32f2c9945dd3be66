package execute

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jmoiron/sqlx"
)

// A job keeps its row, and with it its schedules and its history, when the program gives it another name. While programs of the
// version before run, they know it by its former name: what they declare and ask for under that name means the same row.

const (
	jobFormerlySQL = `SELECT ID FROM QRTZ_JOB WHERE APPLICATION = ? AND FORMER_NAME = ? ORDER BY ID LIMIT 1`
	renameSQL      = `UPDATE QRTZ_JOB SET FORMER_NAME = NAME, NAME = ? WHERE ID = ?`
)

// jobFormerly is the id of the job that had a name before; sql.ErrNoRows if none had.
func (s *Store) jobFormerly(ctx context.Context, tx *sqlx.Tx, name string) (id int64, err error) {
	err = s.db.On(tx).Get(ctx, &id, jobFormerlySQL, s.app, name)
	return id, err
}

// rename gives the job its declared name that has a former one. If there are jobs of both names, the former one is retired.
func (s *Store) rename(ctx context.Context, tx *sqlx.Tx, d Declaration) (apart []Finding, err error) {
	if len(d.Was) == 0 {
		return nil, nil
	}
	job, found, err := s.lockNamed(ctx, tx, d.Name)
	if err != nil {
		return nil, err
	}
	if found && job.Name != d.Name && slices.Contains(d.Was, job.Name) { // one name to the server, as two that differ in case
		return nil, s.setName(ctx, tx, job, d.Name)
	}
	for _, name := range d.Was {
		former, exists, err := s.lockNamed(ctx, tx, name)
		if err != nil {
			return nil, err
		}
		if !exists || former.Name != name || readDeclared(former.Declared, nil).JobRetired {
			continue
		}
		if !found {
			found = true
			err = s.setName(ctx, tx, former, d.Name)
		} else if retired, e := s.retireJob(ctx, tx, former); retired {
			apart, err = append(apart, Finding{Former: name}), e
		}
		if err != nil {
			return nil, err
		}
	}
	return apart, nil
}

func (s *Store) setName(ctx context.Context, tx *sqlx.Tx, job declaredJob, name string) error {
	_, err := s.db.On(tx).Exec(ctx, renameSQL, name, job.ID)
	return err
}

// lockNamed locks the job that has a name now.
func (s *Store) lockNamed(ctx context.Context, tx *sqlx.Tx, name string) (job declaredJob, found bool, err error) {
	var exists bool
	if err := s.db.On(tx).Get(ctx, &exists, jobExistsSQL, s.app, name); err != nil || !exists {
		return job, false, err // without a lock: one of a row that is not there would hold up those that add it
	}
	err = s.db.On(tx).Get(ctx, &job, lockNamedSQL, s.app, name)
	if errors.Is(err, sql.ErrNoRows) {
		return job, false, nil
	}
	return job, err == nil, err
}
