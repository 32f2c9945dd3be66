package main

import "time"

const tuned = "tuned" // how the label of settings that are not the defaults begins

// extent is how much is measured.
type extent struct {
	nodes []int

	fires        map[string][]fireSetting // by peer, of the most that is kept up with
	stairs       map[string]stairs        // by peer
	noHistory    stairs
	late         map[string][]fireSetting // by peer, of lateness
	lateRates    stairs
	lateNodes    int
	queued       map[string][]queueSetting // by peer
	pace         pace
	backlog      map[string][]queueSetting
	backlogRuns  int
	backlogFor   time.Duration // at most
	enqueueFor   time.Duration
	enqueueCalls []struct{ connections, atOnce int }
}

var (
	manyWorkers    = fireSetting{label: "2,000 workers", workers: 2000}
	withoutHistory = fireSetting{label: "2,000 workers, no history", workers: 2000, noHistory: true}
	defaultFires   = fireSetting{label: "defaults: 64 workers", workers: 64}
	quartzPlain    = fireSetting{label: "64 threads, one by one", workers: 64, batch: 1}
	quartzBatch    = fireSetting{label: "tuned: 64 threads, batches of 50", workers: 64, batch: 50}

	qrtzDefault  = queueSetting{label: "defaults: 64 workers", workers: 64}
	qrtzMany     = queueSetting{label: "tuned: 2,000 workers", workers: 2000}
	riverDefault = queueSetting{label: "defaults: 100 workers", workers: 100}
	riverTuned   = queueSetting{label: "tuned: 100 workers, cooldown 5 ms", workers: 100, tuned: true}
	riverMany    = queueSetting{label: "tuned: 2,000 workers, cooldown 5 ms", workers: 2000, tuned: true}
	asynqDefault = queueSetting{label: "defaults: a worker a core"}
	asynqTuned   = queueSetting{label: "tuned: 64 workers, check 20 ms", workers: 64, tuned: true}
)

var (
	fullExtent = extent{
		nodes: []int{1, 3},
		fires: map[string][]fireSetting{nameQrtz: {manyWorkers, withoutHistory}, nameQuartz: {quartzBatch, quartzPlain}},
		stairs: map[string]stairs{
			nameQrtz:   {steps(6000, 1.25, 60_000), 3 * time.Second, 1500 * time.Millisecond, 4 * time.Second},
			nameQuartz: {steps(150, 1.25, 5000), 3 * time.Second, 1500 * time.Millisecond, 4 * time.Second},
		},
		late: map[string][]fireSetting{nameQrtz: {defaultFires}, nameQuartz: {quartzPlain, quartzBatch}}, lateNodes: 3,
		noHistory: stairs{steps(16_000, 1.25, 100_000), 3 * time.Second, 1500 * time.Millisecond, 4 * time.Second},
		lateRates: stairs{[]int{20, 200}, 3 * time.Second, 2 * time.Second, 15 * time.Second},
		queued: map[string][]queueSetting{
			nameQrtz: {qrtzDefault}, nameRiver: {riverDefault, riverTuned}, nameAsynqAlways: {asynqDefault, asynqTuned}, nameAsynqSecond: {asynqTuned},
		},
		pace: pace{2 * time.Second, []int{20, 200}, []time.Duration{15 * time.Second, 5 * time.Second}},
		backlog: map[string][]queueSetting{
			nameQrtz: {qrtzDefault, qrtzMany}, nameRiver: {riverDefault, riverMany}, nameAsynqAlways: {asynqDefault, asynqTuned}, nameAsynqSecond: {asynqDefault, asynqTuned},
		},
		backlogRuns: 100_000, backlogFor: 8 * time.Second, enqueueFor: 3 * time.Second,
		enqueueCalls: []struct{ connections, atOnce int }{{1, 1}, {8, 1}, {1, 1000}, {1, 10_000}},
	}
	quickExtent = extent{
		nodes: []int{1, 3},
		fires: map[string][]fireSetting{nameQrtz: {manyWorkers}, nameQuartz: {quartzBatch}},
		stairs: map[string]stairs{
			nameQrtz:   {steps(6000, 1.5, 60_000), 3 * time.Second, time.Second, 2 * time.Second},
			nameQuartz: {steps(100, 1.5, 5000), 3 * time.Second, time.Second, 2 * time.Second},
		},
		late: map[string][]fireSetting{nameQrtz: {defaultFires}, nameQuartz: {quartzPlain}}, lateNodes: 3,
		lateRates: stairs{[]int{20, 200}, 2 * time.Second, time.Second, 4 * time.Second},
		queued: map[string][]queueSetting{
			nameQrtz: {qrtzDefault}, nameRiver: {riverDefault, riverTuned}, nameAsynqAlways: {asynqDefault, asynqTuned},
		},
		pace: pace{time.Second, []int{20, 200}, []time.Duration{3 * time.Second, 1500 * time.Millisecond}},
		backlog: map[string][]queueSetting{
			nameQrtz: {qrtzDefault, qrtzMany}, nameRiver: {riverDefault, riverMany}, nameAsynqAlways: {asynqDefault, asynqTuned}, nameAsynqSecond: {asynqTuned},
		},
		backlogRuns: 25_000, backlogFor: 2 * time.Second, enqueueFor: time.Second,
		enqueueCalls: []struct{ connections, atOnce int }{{1, 1}, {8, 1}, {1, 1000}},
	}
)
