package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// The data of a run is its own, or else that of its schedule, or else that of its job.
//
// A claim brings data of up to 64 KiB with it. What is larger is read when the handler is about to start, so that the data of
// all the runs that a process has claimed and not started fits into memory.
const (
	runDataColumns = `IF(LENGTH(COALESCE(R.JOB_DATA, E.JOB_DATA, J.JOB_DATA)) <= 65536, COALESCE(R.JOB_DATA, E.JOB_DATA, J.JOB_DATA), NULL) AS DATA,
       COALESCE(LENGTH(COALESCE(R.JOB_DATA, E.JOB_DATA, J.JOB_DATA)), 0) AS DATA_SIZE`

	JobDataColumns = `IF(LENGTH(J.JOB_DATA) <= 65536, J.JOB_DATA, NULL) AS DATA, COALESCE(LENGTH(J.JOB_DATA), 0) AS DATA_SIZE`
)

// Unread tells whether the run has data that did not come with its claim.
func (r Run) Unread() bool { return r.DataSize > 0 && r.Data == nil }

// ErrNoData says that the row which held the data of a run is gone.
var ErrNoData = errors.New("the row that held its data is gone")

const (
	runDataSQL = `
SELECT COALESCE(LENGTH(D.DATA), 0) AS DATA_SIZE, IF(LENGTH(D.DATA) <= ?, D.DATA, NULL) AS DATA
  FROM (SELECT COALESCE(R.JOB_DATA, E.JOB_DATA, J.JOB_DATA) AS DATA
          FROM QRTZ_RUN R LEFT JOIN QRTZ_JOB J ON J.ID = R.JOB_ID LEFT JOIN QRTZ_EXECUTE E ON E.ID = R.EXECUTE_ID
         WHERE R.ID = ? AND (J.ID IS NOT NULL OR R.JOB_DATA IS NOT NULL OR E.JOB_DATA IS NOT NULL)) D`

	fireDataSQL = `
SELECT COALESCE(LENGTH(D.DATA), 0) AS DATA_SIZE, IF(LENGTH(D.DATA) <= ?, D.DATA, NULL) AS DATA
  FROM (SELECT COALESCE(E.JOB_DATA, J.JOB_DATA) AS DATA FROM QRTZ_JOB J LEFT JOIN QRTZ_EXECUTE E ON E.ID = ? WHERE J.ID = ?) D`
)

// Data reads the data of a run if it has at most so many bytes. It returns nil, and the size, if it has grown beyond that since
// the run was claimed.
func (s *Store) Data(ctx context.Context, r Run, most int64) (data []byte, size int64, err error) {
	query, args := runDataSQL, []any{most, r.ID}
	if r.ID == 0 {
		query, args = fireDataSQL, []any{most, r.ExecuteID, r.JobID}
	}
	var row struct {
		Size int64  `db:"DATA_SIZE"`
		Data []byte `db:"DATA"`
	}
	switch err := s.db.Get(ctx, &row, query, args...); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, 0, ErrNoData
	case err != nil:
		return nil, 0, fmt.Errorf("read the data of a run: %w", err)
	}
	return row.Data, row.Size, nil
}
