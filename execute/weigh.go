package execute

import (
	"context"
	"time"
)

const (
	packetData = 4 << 20     // bytes of data that the runs of one claim may have together, unless it is one run
	claimFor   = time.Second // after which a claim of pending runs leaves the rest for the next one

	weighFirst = 8 // runs whose data is measured by one statement, at first
	weighFast  = 50 * time.Millisecond
	weighSlow  = 500 * time.Millisecond
)

// COALESCE: a run without data of its own is light, however large its job's may be.
const dataSizeSQL = `SELECT ID, COALESCE(LENGTH(JOB_DATA), 0) AS DATA_SIZE FROM QRTZ_RUN WHERE ID IN (?)`

// lightBatches calls claim with batches of runs, of which each has little data. For a server fetches the whole row, with all
// its data, whenever it locks or changes it, several times in one claim: 64 runs with 15 MB each took 37 s with locks held. It
// measures the data before that, without a lock, of as many runs at a time as was quick so far, and ends after claimFor.
func (s *Store) lightBatches(ctx context.Context, runs []PendingRun, claim func([]PendingRun) error) error {
	begin := time.Now()
	for len(runs) > 0 && time.Since(begin) < claimFor {
		some := runs[:min(len(runs), s.weighAtOnce())]
		sizes, err := s.dataSizes(ctx, some)
		if err != nil {
			return err
		}
		runs = runs[len(some):]
		for len(some) > 0 && time.Since(begin) < claimFor {
			n, sum := 0, int64(0)
			for n < len(some) && (n == 0 || sum+sizes[some[n].ID] <= packetData) {
				sum += sizes[some[n].ID]
				n++
			}
			if err := claim(some[:n]); err != nil {
				return err
			}
			some = some[n:]
		}
	}
	return nil
}

func (s *Store) weighAtOnce() int {
	n := s.weighing.Load()
	if n == 0 {
		n = weighFirst
	}
	return int(min(n, carefulBatch))
}

// dataSizes measures the data of runs, which may mean to read all of it from the server's disk.
func (s *Store) dataSizes(ctx context.Context, runs []PendingRun) (map[int64]int64, error) {
	var rows []struct {
		ID   int64 `db:"ID"`
		Size int64 `db:"DATA_SIZE"`
	}
	ids := make([]int64, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	begin := time.Now()
	err := s.selectRows(ctx, s.db, &rows, dataSizeSQL, ids)
	switch took := time.Since(begin); {
	case err != nil, took > weighSlow:
		s.weighing.Store(int64(max(1, len(runs)/4)))
	case took < weighFast && len(runs) == s.weighAtOnce():
		s.weighing.Store(int64(min(2*len(runs), carefulBatch)))
	}
	sizes := make(map[int64]int64, len(rows))
	for _, r := range rows {
		sizes[r.ID] = r.Size
	}
	return sizes, err
}
