// SPDX-License-Identifier: GPL-2.0
/*
 * Bridge between a Mali CSF GPU driver and a model of the GPU that runs in
 * another process on the host.
 *
 * Kernel and model run in lock-step over a stream socket: the kernel sends a
 * request, and stands still until it has the reply. The model never acts on
 * its own. Each reply says which interrupt lines are high and when, on the
 * kernel's clock, the model wants to be called next; an hrtimer does that.
 * So the model cannot run ahead of the kernel, and a kernel whose clock is
 * virtual sees the same history in each run.
 *
 * Interrupts are delivered from the hrtimer's callback only, never from within
 * a register access, as no interrupt controller would do that: drivers access
 * registers with locks held that their interrupt handlers take. The lines are
 * levels: one that is high and not masked is delivered again and again.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/lockdep.h>
#include <linux/logic_iomem.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/platform_device.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <linux/version.h>
#include <mali_bridge.h>
#include <mem.h>
#include <os.h>

/* Goes up whenever the meaning of a request or reply changes. */
#define MALI_PROTOCOL		2

/* What a model answers to MALI_OP_HELLO: "MALIU". */
#define MALI_MAGIC		0x4d414c4955ULL

#define MALI_NEVER		U64_MAX

/* Job, MMU and GPU, as the interrupt specifiers in the device tree. */
#define MALI_NR_LINES		3
#define MALI_ALL_LINES		GENMASK(MALI_NR_LINES - 1, 0)

/* The least time between two deliveries of a line that stays high. */
#define MALI_REDELIVERY_NS	1000

/* The register page that user space may map read-only: LATEST_FLUSH_ID. */
#define MALI_USER_PAGE		SZ_64K

enum mali_op {
	MALI_OP_HELLO,
	MALI_OP_READ,
	MALI_OP_WRITE,
	MALI_OP_TICK,
};

/**
 * struct mali_request - kernel to model, in host byte order
 * @op: &enum mali_op
 * @offset: in the register window; HELLO: MALI_PROTOCOL
 * @size: bytes to access; HELLO: bytes of this structure
 * @pid: HELLO: process id of the kernel on the host; otherwise 0
 * @value: WRITE: the value; HELLO: bytes of physical memory, whose file comes
 *	along as SCM_RIGHTS: a guest physical address is an offset in it
 * @now: CLOCK_MONOTONIC of the kernel in nanoseconds; HELLO: guest physical
 *	address of the page that user space reads instead of LATEST_FLUSH_ID
 */
struct mali_request {
	u32 op;
	u32 offset;
	u32 size;
	u32 pid;
	u64 value;
	u64 now;
};

/**
 * struct mali_reply - model to kernel, in host byte order
 * @value: READ: the value; HELLO: MALI_MAGIC
 * @deadline: when to send TICK, as mali_request.now, or MALI_NEVER
 * @lines: the interrupt lines that are high, a bit each
 * @extra: HELLO: MALI_PROTOCOL; otherwise how many nanoseconds longer than
 *	usual the access takes
 */
struct mali_reply {
	u64 value;
	u64 deadline;
	u32 lines;
	u32 extra;
};

static char *mali_socket = "";
module_param_named(socket, mali_socket, charp, 0444);
MODULE_PARM_DESC(socket, "path of the model's socket on the host");

static struct {
	/* Orders exchanges and guards what follows; inside irq_desc.lock. */
	raw_spinlock_t lock;
	int fd;
	u32 high;
	u32 masked;
	u64 deadline;
	/* A line that is high is not delivered before this. */
	u64 deliver_after;
	/* What the timer is set to. */
	u64 armed;
	struct hrtimer timer;
	struct irq_domain *domain;
	struct resource window;
	phys_addr_t user_page;
} mali = {
	.lock = __RAW_SPIN_LOCK_UNLOCKED(mali.lock),
	.fd = -1,
	.masked = MALI_ALL_LINES,
	.deadline = MALI_NEVER,
	.armed = MALI_NEVER,
};

bool mali_bridge_user_page(unsigned long phys, unsigned long long *offset)
{
	if (!mali.user_page ||
	    (phys & PAGE_MASK) != mali.window.start + MALI_USER_PAGE)
		return false;

	*offset = mali.user_page + offset_in_page(phys);
	return true;
}

static void mali_lost(int err)
{
	panic("%s: the GPU model went away (%d)\n", KBUILD_MODNAME, err);
}

static void mali_send(const void *buf, int len)
{
	while (len) {
		int n = os_write_file(mali.fd, buf, len);

		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n <= 0)
			mali_lost(n);
		buf += n;
		len -= n;
	}
}

static void mali_receive(void *buf, int len)
{
	while (len) {
		int n = os_read_file(mali.fd, buf, len);

		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n <= 0)
			mali_lost(n);
		buf += n;
		len -= n;
	}
}

static void mali_set_timer(void)
{
	u64 when = mali.deadline;

	lockdep_assert_held(&mali.lock);

	if (mali.high & ~mali.masked)
		when = min(when, mali.deliver_after);
	if (when == mali.armed)
		return;

	mali.armed = when;
	if (when == MALI_NEVER)
		hrtimer_try_to_cancel(&mali.timer);
	else
		hrtimer_start(&mali.timer, ns_to_ktime(when),
			      HRTIMER_MODE_ABS_HARD);
}

static struct mali_reply mali_exchange(enum mali_op op, u32 offset, u32 size,
				       u64 value)
{
	struct mali_request request = {
		.op = op,
		.offset = offset,
		.size = size,
		.value = value,
		.now = ktime_get_ns(),
	};
	struct mali_reply reply;

	lockdep_assert_held(&mali.lock);

	mali_send(&request, sizeof(request));
	mali_receive(&reply, sizeof(reply));
	mali.high = reply.lines & MALI_ALL_LINES;
	mali.deadline = reply.deadline;
	return reply;
}

/* A slow bus. Not under the lock: with the time that passes, the timer comes. */
static void mali_stall(u32 ns)
{
	for (; ns >= NSEC_PER_MSEC; ns -= NSEC_PER_MSEC)
		udelay(USEC_PER_MSEC);
	if (ns)
		ndelay(ns);
}

static u64 mali_access(enum mali_op op, u32 offset, u32 size, u64 value)
{
	struct mali_reply reply;
	unsigned long flags;

	raw_spin_lock_irqsave(&mali.lock, flags);
	reply = mali_exchange(op, offset, size, value);
	mali_set_timer();
	raw_spin_unlock_irqrestore(&mali.lock, flags);

	mali_stall(reply.extra);

	return reply.value;
}

static enum hrtimer_restart mali_timer(struct hrtimer *timer)
{
	unsigned long flags, lines;
	unsigned int line;
	u64 now;

	raw_spin_lock_irqsave(&mali.lock, flags);
	mali.armed = MALI_NEVER;
	now = ktime_get_ns();
	if (mali.deadline <= now)
		mali_exchange(MALI_OP_TICK, 0, 0, 0);
	lines = mali.high & ~mali.masked;
	if (lines)
		mali.deliver_after = now + MALI_REDELIVERY_NS;
	raw_spin_unlock_irqrestore(&mali.lock, flags);

	for_each_set_bit(line, &lines, MALI_NR_LINES)
		generic_handle_domain_irq(mali.domain, line);

	raw_spin_lock_irqsave(&mali.lock, flags);
	mali_set_timer();
	raw_spin_unlock_irqrestore(&mali.lock, flags);

	return HRTIMER_NORESTART;
}

static unsigned long mali_read(void *priv, unsigned int offset, int size)
{
	return mali_access(MALI_OP_READ, offset, size, 0);
}

static void mali_write(void *priv, unsigned int offset, int size,
		       unsigned long value)
{
	mali_access(MALI_OP_WRITE, offset, size, value);
}

static const struct logic_iomem_ops mali_iomem_ops = {
	.read = mali_read,
	.write = mali_write,
};

static long mali_map(unsigned long offset, size_t size,
		     const struct logic_iomem_ops **ops, void **priv)
{
	*ops = &mali_iomem_ops;
	*priv = NULL;
	return offset;
}

static const struct logic_iomem_region_ops mali_region_ops = {
	.map = mali_map,
};

static void mali_irq_mask(struct irq_data *data)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&mali.lock, flags);
	mali.masked |= BIT(irqd_to_hwirq(data));
	raw_spin_unlock_irqrestore(&mali.lock, flags);
}

static void mali_irq_unmask(struct irq_data *data)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&mali.lock, flags);
	mali.masked &= ~BIT(irqd_to_hwirq(data));
	mali_set_timer();
	raw_spin_unlock_irqrestore(&mali.lock, flags);
}

static struct irq_chip mali_irq_chip = {
	.name = "mali",
	.irq_mask = mali_irq_mask,
	.irq_unmask = mali_irq_unmask,
};

static int mali_irq_map(struct irq_domain *domain, unsigned int irq,
			irq_hw_number_t line)
{
	irq_set_chip_and_handler(irq, &mali_irq_chip, handle_level_irq);
	return 0;
}

static const struct irq_domain_ops mali_irq_domain_ops = {
	.map = mali_irq_map,
	.xlate = irq_domain_xlate_onecell,
};

static int mali_hello(struct device *dev)
{
	struct mali_request request = {
		.op = MALI_OP_HELLO,
		.offset = MALI_PROTOCOL,
		.size = sizeof(request),
		.pid = os_getpid(),
		.value = PFN_PHYS(max_low_pfn),
		.now = mali.user_page,
	};
	unsigned long long offset;
	struct mali_reply reply;
	int memory, n;

	mali.fd = os_connect_socket(mali_socket);
	if (mali.fd < 0)
		return dev_err_probe(dev, mali.fd, "no model at %s%s\n",
				     KBUILD_MODNAME ".socket=", mali_socket);

	memory = phys_mapping(0, &offset);
	n = os_sendmsg_fds(mali.fd, &request, sizeof(request), &memory, 1);
	if (n != sizeof(request))
		return dev_err_probe(dev, -EIO, "cannot greet the model (%d)\n",
				     n);

	mali_receive(&reply, sizeof(reply));
	if (reply.value != MALI_MAGIC)
		return dev_err_probe(dev, -EPROTO, "%s is no GPU model\n",
				     mali_socket);
	if (reply.extra != MALI_PROTOCOL)
		return dev_err_probe(dev, -EPROTO,
				     "model speaks protocol %u, not %u\n",
				     reply.extra, MALI_PROTOCOL);
	return 0;
}

static int mali_probe(struct platform_device *pdev)
{
	struct device_node *node = pdev->dev.of_node;
	struct page *page;
	int err;

	err = of_address_to_resource(node, 0, &mali.window);
	if (err)
		return err;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&mali.timer, mali_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_HARD);
#else
	hrtimer_init(&mali.timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	mali.timer.function = mali_timer;
#endif

	page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!page)
		return -ENOMEM;
	mali.user_page = page_to_phys(page);

	err = mali_hello(&pdev->dev);
	if (err)
		return err;

	mali.domain = irq_domain_create_linear(of_fwnode_handle(node),
					       MALI_NR_LINES,
					       &mali_irq_domain_ops, NULL);
	if (!mali.domain)
		return -ENOMEM;

	return logic_iomem_add_region(&mali.window, &mali_region_ops);
}

static const struct of_device_id mali_of_match[] = {
	{ .compatible = "uml,mali-bridge" },
	{ }
};

static struct platform_driver mali_driver = {
	.probe = mali_probe,
	.driver = {
		.name = "uml-mali-bridge",
		.of_match_table = mali_of_match,
		/* The register window stays for as long as the kernel runs. */
		.suppress_bind_attrs = true,
	},
};

static int __init mali_init(void)
{
	return platform_driver_register(&mali_driver);
}
subsys_initcall(mali_init);
