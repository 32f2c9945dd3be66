package execute

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/run"
)

const declaredNamesSQL = `
SELECT NAME FROM QRTZ_JOB
 WHERE APPLICATION = ? AND NAME IS NOT NULL
   AND CASE WHEN JSON_VALID(DECLARED) THEN JSON_EXTRACT(DECLARED, '$.job') IS NOT NULL AND JSON_EXTRACT(DECLARED, '$.job_retired') IS NULL ELSE 0 END
 ORDER BY NAME`

// NotDeclared lists the jobs of the app that a program has declared and that are not among some. What was added by SQL, and what
// Retire has completed, is not among them.
func (s *Store) NotDeclared(ctx context.Context, tx *sqlx.Tx, some []Declaration) (names []string, err error) {
	if err := s.db.On(tx).Select(ctx, &names, declaredNamesSQL, s.app); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(some, func(d Declaration) bool { return d.Name == name })
	}), nil
}

// Retire completes the declared schedules of jobs that the program does not declare any more. It returns an error for a job that no
// program has declared.
func (s *Store) Retire(ctx context.Context, tx *sqlx.Tx, names []string) error {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		job, found, err := s.lockNamed(ctx, tx, name)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%w: app %q has no job named %q", run.ErrNotFound, s.app, name)
		}
		retired, err := s.retireJob(ctx, tx, job)
		if err != nil {
			return err
		}
		if !retired {
			return fmt.Errorf("job %q was not declared by a program: it belongs to the operator who added it", name)
		}
	}
	return nil
}

// retireJob returns false for a job that no program has declared.
func (s *Store) retireJob(ctx context.Context, tx *sqlx.Tx, job declaredJob) (retired bool, err error) {
	base := readDeclared(job.Declared, nil)
	if base.Job == nil {
		return false, nil
	}
	stored, err := s.lockSchedules(ctx, tx, job.ID)
	if err != nil {
		return true, err
	}
	rows := map[string]declaredRow{}
	for _, r := range stored {
		rows[r.Name] = r
	}
	if err := s.retireSchedules(ctx, tx, rows, nil, &base); err != nil {
		return true, err
	}
	base.Schedules, base.JobRetired = nil, true
	return true, s.setDeclared(ctx, tx, job, base)
}
