package execute

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
)

// A schedule that a program adds at run time is not declared: it is not in DECLARED, and so Declare leaves it alone. One that is
// declared and then changed or deleted at run time is as if an operator had done it.

// Schedule makes one schedule of a job what d says, and adds it if there is none of its name. It needs a name.
func (s *Store) Schedule(ctx context.Context, tx *sqlx.Tx, now time.Time, jobName string, d DeclaredSchedule) error {
	if d.Name == "" {
		return errors.New("a schedule that is added at run time needs a name")
	}
	if err := d.validate(); err != nil {
		return fmt.Errorf("schedule %q: %w", d.Name, err)
	}
	id, err := s.JobNamed(ctx, tx, jobName)
	if err != nil {
		return err
	}
	var job declaredJob
	if err := s.db.On(tx).Get(ctx, &job, lockByIDSQL, s.app, id); err != nil {
		return err
	}
	stored, err := s.lockSchedules(ctx, tx, id)
	if err != nil {
		return err
	}
	if !job.Declared.Valid { // what has a name was declared by an earlier release, but for this one
		if err := s.setDeclared(ctx, tx, job, readDeclared(job.Declared, namesOf(stored))); err != nil {
			return err
		}
	}
	for _, old := range stored {
		if old.Name == d.Name {
			_, err := s.changeSchedule(ctx, tx, now, old, d, nil, true)
			return err
		}
	}
	return s.addSchedule(ctx, tx, now, id, d)
}

// Unschedule deletes one schedule of a job, as DeleteExecute does.
func (s *Store) Unschedule(ctx context.Context, tx *sqlx.Tx, now time.Time, job, name string) error {
	if name == "" {
		return errors.New("which schedule? Its name is missing")
	}
	ids, err := s.ExecutesNamed(ctx, tx, job, name)
	if err != nil {
		return err
	}
	return s.DeleteExecute(ctx, tx, now, ids[0])
}
