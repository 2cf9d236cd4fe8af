import java.io.File;
import java.io.FileOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** HDFS and YARN on the loopback interface, one node each: writes the settings of clients into a folder, ends with its standard input. */
public class MiniHadoop {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        Configuration conf = new YarnConfiguration();
        conf.set("yarn.nodemanager.resource.memory-mb", "4096");
        conf.set("yarn.scheduler.minimum-allocation-mb", "256");
        conf.set("yarn.nodemanager.vmem-check-enabled", "false");
        conf.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99");
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
        conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.5");
        System.setProperty("test.build.data", folder + "/yarn");
        MiniDFSCluster dfs = new MiniDFSCluster.Builder(conf, new File(folder, "dfs")).numDataNodes(1).build();
        MiniYARNCluster yarn = new MiniYARNCluster("yarn", 1, 1, 1);
        yarn.init(conf);
        yarn.start();
        Configuration made = new Configuration(false);
        made.set("fs.defaultFS", dfs.getURI().toString());
        for (String name : new String[] {"address", "scheduler.address", "webapp.address", "admin.address"}) {
            made.set("yarn.resourcemanager." + name, yarn.getConfig().get("yarn.resourcemanager." + name));
        }
        for (String name : new String[] {"yarn-site.xml", "core-site.xml"}) {
            File part = new File(folder, "part.xml");
            try (FileOutputStream out = new FileOutputStream(part)) { made.writeXml(out); }
            part.renameTo(new File(folder, name));
        }
        System.in.read();
        System.exit(0);
    }
}
