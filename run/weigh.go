package run

import (
	"context"
	"iter"
	"time"
)

const (
	claimBatch   = 250 // pending runs of one packet of a claim
	carefulBatch = 100 // runs of one packet that asks first which rows are locked: the server compares each with each

	// packetData is how many bytes of data the runs of one statement or packet may have together, unless it is one run.
	packetData = 4 << 20

	claimFor = time.Second // after which a claim of pending runs leaves the rest for the next one

	weighFirst = 8   // runs whose data is measured by one statement, at first
	weighMost  = 500 // and at the most
	weighFast  = 50 * time.Millisecond
	weighSlow  = 500 * time.Millisecond
)

// COALESCE: a run without data of its own is light, however large its job's may be.
const dataSizeSQL = `SELECT ID, COALESCE(LENGTH(JOB_DATA), 0) + COALESCE(LENGTH(CHECKPOINT), 0) AS DATA_SIZE FROM QRTZ_RUN WHERE ID IN (?)`

// light parts rows into batches of at most so many, of which each has little data in its rows, unless it is one row. For a
// server fetches the whole row, with all its data, whenever it locks or changes it, several times in one claim: 64 runs with 15
// MB each took 37 s with locks held.
func light[T any](rows []T, most int, size func(T) int64) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		begin, sum := 0, int64(0)
		for i, row := range rows {
			if own := size(row); i > begin && (i-begin == most || sum+own > packetData) {
				if !yield(rows[begin:i:i]) {
					return
				}
				begin, sum = i, own
			} else {
				sum += own
			}
		}
		if begin < len(rows) {
			yield(rows[begin:])
		}
	}
}

// lightBatches calls do with light batches of runs, and their sizes. It measures the data before that, without a lock, of as
// many runs at a time as was quick so far. It ends after a time, if that is not 0.
func lightBatches[T any](ctx context.Context, s *Store, runs []T, id func(T) int64, limit time.Duration, do func([]T, map[int64]int64) error) error {
	begin := time.Now()
	over := func() bool { return limit > 0 && time.Since(begin) >= limit }
	for len(runs) > 0 && !over() {
		some := runs[:min(len(runs), s.weighAtOnce())]
		runs = runs[len(some):]
		ids := make([]int64, len(some))
		for i, r := range some {
			ids[i] = id(r)
		}
		sizes, err := s.dataSizes(ctx, ids)
		if err != nil {
			return err
		}
		for batch := range light(some, carefulBatch, func(r T) int64 { return sizes[id(r)] }) {
			if over() {
				return nil
			}
			if err := do(batch, sizes); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) weighAtOnce() int {
	n := s.weighing.Load()
	if n == 0 {
		n = weighFirst
	}
	return int(min(n, weighMost))
}

// dataSizes measures the data of runs, which may mean to read all of it from the server's disk.
func (s *Store) dataSizes(ctx context.Context, ids []int64) (map[int64]int64, error) {
	var rows []struct {
		ID   int64 `db:"ID"`
		Size int64 `db:"DATA_SIZE"`
	}
	begin := time.Now()
	err := s.db.Select(ctx, &rows, dataSizeSQL, ids)
	s.noteWeighing(len(ids), len(ids), time.Since(begin), err)
	sizes := make(map[int64]int64, len(rows))
	for _, r := range rows {
		sizes[r.ID] = r.Size
	}
	return sizes, err
}

// noteWeighing notes how long it took to measure the data of so many runs, of at most so many.
func (s *Store) noteWeighing(most, measured int, took time.Duration, err error) {
	switch {
	case err != nil, took > weighSlow:
		s.weighing.Store(int64(max(1, most/4)))
	case took < weighFast && measured == s.weighAtOnce():
		s.weighing.Store(int64(min(2*measured, weighMost)))
	}
}
