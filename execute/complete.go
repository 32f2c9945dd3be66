package execute

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
)

const (
	maxMessage = 8 << 10 // bytes of a run's message that are kept

	completeSQL = `
UPDATE QRTZ_RUN R JOIN %s V ON V.ID = R.ID
   SET R.STATE = V.STATE1, R.STARTED_AT = V.STARTED, R.FINISHED_AT = V.FINISHED, R.MESSAGE = V.MESSAGE1
 WHERE R.STATE = 'RUNNING' AND R.INSTANCE = V.HOLDER`
)

// Complete writes the results of runs that are still their instance's. It returns how many were not:
// their node had been taken for dead, and they are on record as LOST.
func (s *Store) Complete(ctx context.Context, results []Result) (late int, err error) {
	if len(results) == 0 {
		return 0, nil
	}
	slices.SortFunc(results, func(a, b Result) int { return cmp.Compare(a.RunID, b.RunID) })
	args := make([]any, 0, 6*len(results))
	for _, r := range results {
		args = append(args, r.RunID, r.Instance, r.State, r.Started.UnixMilli(), r.Finished.UnixMilli(),
			sql.NullString{String: clip(r.Message, maxMessage), Valid: r.Message != ""})
	}
	query := fmt.Sprintf(completeSQL, values(len(results), "ID", "HOLDER", "STATE1", "STARTED", "FINISHED", "MESSAGE1"))
	done, err := s.db.ExecContext(ctx, s.prefix.SQL(query), args...)
	if err != nil {
		return 0, fmt.Errorf("write results: %w", err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("write results: %w", err)
	}
	return len(results) - int(n), nil
}
