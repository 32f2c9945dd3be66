module github.com/qrtz-go/qrtz/internal/proof/cronbench

go 1.25

replace github.com/qrtz-go/qrtz => ../../..

require (
	github.com/adhocore/gronx v1.20.4
	github.com/netresearch/go-cron v0.9.1
	github.com/qrtz-go/qrtz v0.0.0-00010101000000-000000000000
	github.com/reugn/go-quartz v0.15.2
	github.com/robfig/cron/v3 v3.0.1
)
